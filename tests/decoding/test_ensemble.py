"""An ensemble is the mean of its models' log-probabilities, in every kind of search."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding.engine import Ensemble, decode


@pytest.fixture(scope="module")
def pair(trained):
    """Two models of different depth and kind."""
    return trained("base").model, trained("base_v1").model


def mean_log_probs(models, inputs, targets):
    batch = {"inputs": inputs, "targets": targets}
    logits = [np.asarray(model(batch, training=False), "float64") for model in models]
    log_probs = [x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in logits]
    mean = np.mean(log_probs, axis=0)
    return mean - np.log(np.exp(mean).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_scores_are_the_mean_made_to_sum_to_one(base, pair, beam_size):
    ids, scores = decode(Ensemble(pair), base.inputs, beam_size, 0.7, 8)
    log_probs = mean_log_probs(pair, base.inputs, ids[:, 0])
    for row, all_tokens, score in zip(ids[:, 0], log_probs, scores[:, 0], strict=True):
        length = row.tolist().index(1) + 1
        total = all_tokens[np.arange(length), row[:length]].sum()
        penalty = ((5 + length) / 6) ** 0.7 if beam_size > 1 else 1
        assert score == pytest.approx(total / penalty, abs=1e-4)
        if beam_size == 1:
            assert row[:length].tolist() == all_tokens.argmax(axis=1)[:length].tolist()


def test_a_call_gives_what_stands_for_logits(base, pair):
    batch = {"inputs": base.inputs, "targets": base.inputs[:, :3]}
    found = ops.log_softmax(Ensemble(pair)(batch, training=False))
    expected = mean_log_probs(pair, base.inputs, base.inputs[:, :3])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_positions_are_those_that_all_models_have(trained, pair):
    learned = trained("learned_positions")
    most = learned.hparams.max_length
    assert Ensemble([*pair, learned.model]).learned_positions == most
    assert Ensemble(pair).learned_positions is None
