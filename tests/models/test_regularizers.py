"""What the regularizers of training do, each as its paper says; switched off, nothing changes."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.training import distribution, optimizers
from tests.models.test_transformer import BATCH, tiny

NOTHING_ELSE = {"layer_prepostprocess_dropout": 0.0}
# Losses of three steps with dropout, made before there were regularizers.
BEFORE = [2.9036006927490234, 2.3553178310394287, 2.207468032836914]


def losses(model, steps=3):
    model.compile(optimizer=optimizers.from_hparams(model.hparams), run_eagerly=True)
    step = distribution.step_function(model)
    return [step(BATCH) for _ in range(steps)]


def test_with_all_of_them_off_no_random_stream_moves():
    rates = {f"{name}_dropout": 0.2 for name in ("attention", "relu", "symbol")}
    model = tiny(layer_prepostprocess_dropout=0.3, learning_rate_warmup_steps=1, **rates)
    np.testing.assert_allclose(losses(model), BEFORE, rtol=1e-5)


@pytest.mark.parametrize("side, rate", [("inputs", 0.3), ("targets", 0.1)])
def test_word_dropout_drops_whole_tokens_and_scales_the_others(side, rate):
    model = tiny(**{f"{side}_word_dropout": rate})
    vectors = np.random.default_rng(0).standard_normal((40, 50, 3)).astype("float32")
    layer = getattr(model, f"{side}_word_dropout")
    dropped = np.asarray(layer(vectors, training=True))
    gone = ~dropped.any(-1)
    assert gone.mean() == pytest.approx(rate, abs=0.03)
    np.testing.assert_allclose(dropped[~gone], vectors[~gone] / (1 - rate), rtol=1e-4)
    assert 0 < gone[0].sum() < 50 and (gone[0] != gone[1]).any()
    np.testing.assert_array_equal(layer(vectors, training=False), vectors)


@pytest.mark.parametrize("side", ["inputs", "targets"])
def test_without_its_words_a_side_is_positions_alone(side):
    model = tiny(**NOTHING_ELSE, **{f"{side}_word_dropout": 0.99999})
    other = {**BATCH, side: np.where(BATCH[side] > 1, BATCH[side] + 2, BATCH[side])}
    outputs = [np.asarray(model(batch, training=True)) for batch in (BATCH, other)]
    np.testing.assert_allclose(*outputs, atol=1e-6)
    assert np.abs(outputs[0] - ops.convert_to_numpy(model(BATCH))).max() > 1e-2
