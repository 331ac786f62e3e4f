"""What the regularizers of training do, each as its paper says; switched off, nothing changes."""

import itertools

import numpy as np
import pytest

from t2t_repro.training import distribution, optimizers
from tests.models.test_transformer import BATCH, tiny

NOTHING_ELSE = {"layer_prepostprocess_dropout": 0.0}
# Losses of three steps with dropout, made before there were regularizers.
BEFORE = [2.9036006927490234, 2.3553178310394287, 2.207468032836914]


def losses(model, steps=3):
    model.compile(optimizer=optimizers.from_hparams(model.hparams), run_eagerly=True)
    step = distribution.step_function(model)
    return [step(BATCH).loss for _ in range(steps)]


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


@pytest.mark.parametrize(
    "side, sequences", [("encoder", ("n", "da")), ("decoder", ("none", "dan"))]
)
def test_layerdrop_leaves_out_whole_layers_and_scales_none(side, sequences):
    before, after = sequences
    norms = {"layer_preprocess_sequence": before, "layer_postprocess_sequence": after}
    model = tiny(**NOTHING_ELSE, **norms, **{f"{side}_layerdrop": 0.5})
    stack, x = getattr(model, side), np.random.default_rng(0).standard_normal((2, 5, 12))
    arguments = {} if side == "encoder" else {"memory": x[:, :3] + 1}
    of = {}
    for left in itertools.product([True, False], repeat=2):
        y = x
        for layer, stays in zip(stack.layers, left, strict=True):
            y = layer(y, **arguments)[0] if stays else y
        of[left] = np.asarray(stack.preprocess(y))
    drawn = [np.asarray(stack(x, training=True, **arguments)[0]) for _ in range(12)]
    found = [next(k for k, v in of.items() if np.allclose(v, y, atol=1e-5)) for y in drawn]
    assert set(found) == set(of)
    np.testing.assert_allclose(stack(x, **arguments)[0], of[True, True], atol=1e-5)


def naive_r_drop(passes, labels, smoothing, alpha):
    """The paper's equations 1 to 3, halved, per real target."""
    total = 0.0
    for logits, other in (passes, passes[::-1]):
        for row, row_other, label in zip(logits, other, labels, strict=True):
            log_p = row - np.log(np.exp(row).sum())
            log_q = row_other - np.log(np.exp(row_other).sum())
            target = np.full(len(row), smoothing / (len(row) - 1))
            target[label] = 1 - smoothing
            total += 0.5 * (target * (np.log(target) - log_p)).sum()
            total += 0.5 * alpha * 0.5 * (np.exp(log_p) * (log_p - log_q)).sum()
    return total / len(labels)


def test_r_drop_is_the_equations_of_its_paper():
    alpha, smoothing = 5.0, 0.1
    model = tiny(layer_prepostprocess_dropout=0.3, r_drop_alpha=alpha)
    seen = []
    call = model.softmax.logits
    model.softmax.logits = lambda *arguments: seen.append(call(*arguments)) or seen[-1]
    loss, logits = model.loss_of(BATCH)
    real = BATCH["targets"] != 0
    passes = [np.asarray(each, "float64")[real] for each in seen]
    assert len(passes) == 2 and np.abs(passes[0] - passes[1]).max() > 0.01
    expected = naive_r_drop(passes, BATCH["targets"][real], smoothing, alpha)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(logits, seen[0])
