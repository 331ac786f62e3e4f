"""Positions against tensor2tensor's, and in low precision."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.layers.embedding import LearnedPositions, SinusoidalPositions, timing_signal


@pytest.mark.parametrize("length, channels", [(7, 8), (50, 512), (3, 9)])
def test_timing_signal_is_t2ts(golden_path, length, channels):
    expected = np.load(golden_path / "text" / "timing_signal.npz")[f"{length}_{channels}"]
    np.testing.assert_allclose(timing_signal(ops.arange(length), channels), expected[0], atol=1e-6)


def test_nothing_is_learned_beyond_max_length():
    y = np.asarray(LearnedPositions(5)(np.zeros((1, 7, 4), "float32")))
    assert np.abs(y[:, :5]).min() > 0
    np.testing.assert_array_equal(y[:, 5:], 0)


def test_positions_stay_apart_beyond_256_under_bfloat16():
    layer = SinusoidalPositions(dtype="mixed_bfloat16")
    y = np.asarray(ops.cast(layer(np.zeros((1, 400, 32), "float32")), "float32"))[0]
    exact = np.asarray(timing_signal(ops.arange(400), 32))
    np.testing.assert_allclose(y, exact, atol=1e-2)
    assert np.abs(y[300] - y[301]).max() > 0.1
