"""Beginnings, least lengths and samples: in every kind of search, alone and together."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.decoding import steering
from t2t_repro.decoding.search import _MOST, Search, Sentences, draws
from t2t_repro.decoding.settings import Sampling

PREFIXES = np.array([[9, 4, 23], [0, 0, 0], [30, 0, 0], [5, 11, 0]], "int32")
LEAST = np.array([6, 0, 9, 4], "int32")


def until_end(row):
    row = row.tolist()
    return row[: row.index(1)] if 1 in row else [i for i in row if i]


def facts_of(inputs, limit, *names):
    numbers = np.stack([draws(2, row[row != 0], limit) for row in inputs])
    return {
        name: value
        for name, value in (("prefixes", PREFIXES), ("least", LEAST), ("draws", numbers))
        if name in names
    }


def log_probs_of(model, inputs, targets):
    """The log-probability of each target, (B, T)."""
    logits = model({"inputs": inputs, "targets": targets}, training=False)
    log_probs = np.asarray(ops.log_softmax(ops.cast(logits, "float32")))
    return np.take_along_axis(log_probs, targets[..., None], axis=2)[..., 0]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_beginning_is_kept_and_counts_nothing_but_its_length(base, beam_size):
    limits = np.array([14, 15, 16, 17])
    facts = {"prefixes": PREFIXES, "least": np.zeros(4, "int32")}
    search = Search(beam_size, 0.7)
    ids, scores = base.engine.decode(Sentences(base.inputs, limits, facts), search)
    targets = ids[:, 0]
    log_probs = log_probs_of(base.model, base.inputs, targets)
    plain = base.engine.decode(Sentences(base.inputs, limits), search)
    np.testing.assert_array_equal(until_end(ids[1, 0]), until_end(plain[0][1, 0]))
    for row, prefix, own, score in zip(targets, PREFIXES, log_probs, scores[:, 0], strict=True):
        count = (prefix != 0).sum()
        assert row[:count].tolist() == prefix[:count].tolist()
        length = len(until_end(row)) + 1
        penalty = 1 if beam_size == 1 else ((5 + length) / 6) ** 0.7
        assert 1 in row
        assert score == pytest.approx(own[count:length].sum() / penalty, abs=1e-4)


HOW = Sampling(temperature=1.3, top_k=7, top_p=0.95)


@pytest.mark.parametrize("force_length", [False, True])
def test_a_sample_is_what_a_plain_loop_draws_from_the_models_own_logits(base, force_length):
    how, limit = HOW, 12
    facts = facts_of(base.inputs, limit, "draws", "prefixes", "least")
    search = Search(1, force_length=force_length, sampling=how)
    ids, scores = base.engine.decode(Sentences(base.inputs, [limit] * 4, facts), search)
    targets = np.pad(ids[:, 0], ((0, 0), (0, limit - ids.shape[2])))
    logits = base.model({"inputs": base.inputs, "targets": targets}, training=False)
    log_probs = np.asarray(ops.log_softmax(ops.cast(logits, "float32")))
    for b in range(4):
        total, ended = 0.0, False
        for step in range(limit):
            token = targets[b, step]
            prefix = PREFIXES[b]
            if ended and not force_length:
                break
            if step < (prefix != 0).sum():
                assert token == prefix[step]
            else:
                row = log_probs[b, step].copy()
                if step < LEAST[b]:
                    row[1] = -np.inf
                best = np.argsort(-row, kind="stable")[:7]
                p = np.exp(row[best] / 1.3 - (row[best] / 1.3).max())
                p /= p.sum()
                p = np.where(np.cumsum(p) - p < 0.95, p, 0)
                expected = best[np.searchsorted(np.cumsum(p) / p.sum(), facts["draws"][b, step])]
                assert token == expected
                total += 0.0 if ended else log_probs[b, step, token]
            ended = ended or token == 1
        assert scores[b, 0] == pytest.approx(total, abs=1e-4)


PROBS = np.array([0.05, 0.4, 0.1, 0.2, 0.0, 0.25], "float32")  # by rank: 1, 5, 3, 2, 0


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Sampling(), PROBS),
        (Sampling(temperature=0.5), PROBS**2 / (PROBS**2).sum()),
        (Sampling(top_k=2), [0, 0.4 / 0.65, 0, 0, 0, 0.25 / 0.65]),
        (Sampling(top_k=1), [0, 1, 0, 0, 0, 0]),
        (Sampling(top_k=99), PROBS),
        (Sampling(top_p=0.7), [0, 0.4 / 0.85, 0, 0.2 / 0.85, 0, 0.25 / 0.85]),
        (Sampling(top_p=0.3), [0, 1, 0, 0, 0, 0]),
        # temperature first, then the best three, then the nucleus of these
        (Sampling(top_k=3, top_p=0.75), [0, 0.4 / 0.65, 0, 0, 0, 0.25 / 0.65]),
    ],
)
def test_tokens_come_as_often_as_they_are_probable(how, expected):
    log_probs = np.log(np.maximum(PROBS, 1e-30))[None, None] + 3
    numbers = ((np.arange(4000) + 0.5) / 4000).astype("float32")  # evenly spread
    ids = np.asarray(steering.choose(np.repeat(log_probs, 4000, 0), numbers[:, None, None], how))
    assert ids.shape == (4000, 1) and ids.dtype == np.int32
    np.testing.assert_allclose(np.bincount(ids[:, 0], minlength=6) / 4000, expected, atol=1e-3)


@pytest.mark.parametrize("draw", [0.0, _MOST])
def test_what_has_no_probability_is_never_drawn(draw):
    log_probs = np.full((1, 1, 9), -steering.INF, "float32")
    log_probs[0, 0, [2, 5]] = -0.5
    hot, cold = Sampling(temperature=1e6), Sampling(temperature=1e-9)
    for how in (Sampling(), Sampling(top_k=8), Sampling(top_p=0.999), hot, cold):
        token = int(steering.choose(log_probs, np.float32(draw), how)[0, 0])
        assert token == (2 if draw == 0 else 5)


def test_the_random_numbers_are_those_of_the_seed_and_the_sentence():
    numbers = draws(3, [5, 7, 1], 40)
    assert numbers.dtype == np.float32 and (numbers >= 0).all() and (numbers < 1).all()
    np.testing.assert_array_equal(draws(3, [5, 7, 1], 9), numbers[:9])
    others = [draws(4, [5, 7, 1], 40), draws(3, [57, 1], 40)]
    assert all((other != numbers).all() for other in others)
    many = np.concatenate([draws(0, [i, 1], 50) for i in range(200)])
    assert abs(many.mean() - 0.5) < 0.01 and abs(many.std() - 12**-0.5) < 0.01
