"""Dropout that draws sixteen bits: its rate, its scale, and that draws do not hang together."""

import keras
import numpy as np
import pytest

from t2t_repro.layers import kernels
from t2t_repro.layers.layer import Dropout, dropout_layer

ONES = np.ones((41, 7, 101), "float32")


def test_rate_scale_and_independence():
    layer = Dropout(0.3, seed=5)
    first, second = (np.asarray(layer(ONES, training=True)) for _ in range(2))
    for drawn in (first, second):
        np.testing.assert_allclose(np.unique(drawn), [0, 1 / 0.7], rtol=1e-4)
        assert (drawn == 0).mean() == pytest.approx(0.3, abs=0.01)
    both = np.corrcoef((first == 0).ravel(), (second == 0).ravel())[0, 1]
    neighbours = np.corrcoef((first == 0).ravel()[1:], (first == 0).ravel()[:-1])[0, 1]
    assert max(abs(both), abs(neighbours)) < 0.02


@pytest.mark.parametrize("rate, kept", [(0.0, 1), (1e-7, 1), (1.0, 0)])
def test_rates_at_the_ends(rate, kept):
    drawn = np.asarray(Dropout(rate)(ONES, training=True))
    np.testing.assert_allclose(drawn, kept * ONES, rtol=1e-6)


def test_nothing_is_dropped_outside_training_and_the_config_goes_round():
    layer = dropout_layer(0.9, (-2,), 3, "float32")
    np.testing.assert_array_equal(layer(ONES, training=False), ONES)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert (again.rate, again.noise_shape) == (0.9, (None, 1, None))


def test_the_kernel_drops_as_much_as_its_plain_form_and_scales_as_it():
    for form in kernels.FORMS["dropout"]:
        drawn = np.asarray(form(ONES, 0.3, (None, 1, None), keras.random.SeedGenerator(4)))
        np.testing.assert_array_equal(drawn, np.broadcast_to(drawn[:, :1], drawn.shape))
        np.testing.assert_allclose(np.unique(drawn), [0, 1 / 0.7], rtol=1e-4)
        assert (drawn == 0).mean() == pytest.approx(0.3, abs=0.02)
