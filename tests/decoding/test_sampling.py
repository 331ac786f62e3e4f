"""Sampling draws what the distribution says, from the random numbers of each sentence alone."""

import numpy as np
import pytest

from t2t_repro.decoding import sampling
from t2t_repro.decoding.sampling import Sampling

PROBS = np.array([0.05, 0.4, 0.1, 0.2, 0.0, 0.25], "float32")  # by rank: 1, 5, 3, 2, 0


def drawn(how, count=4000):
    """How often each token comes, of `count` evenly spread draws."""
    log_probs = np.log(np.maximum(PROBS, 1e-30))[None, None] + 3
    numbers = ((np.arange(count) + 0.5) / count).astype("float32")
    ids = np.asarray(sampling.choose(np.repeat(log_probs, count, 0), numbers[:, None, None], how))
    assert ids.shape == (count, 1) and ids.dtype == np.int32
    return np.bincount(ids[:, 0], minlength=6) / count


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
    np.testing.assert_allclose(drawn(how), expected, atol=1e-3)


@pytest.mark.parametrize("draw", [0.0, sampling._MOST])
def test_what_has_no_probability_is_never_drawn(draw):
    log_probs = np.full((1, 1, 9), -sampling.INF, "float32")
    log_probs[0, 0, [2, 5]] = -0.5
    hot, cold = Sampling(temperature=1e6), Sampling(temperature=1e-9)
    for how in (Sampling(), Sampling(top_k=8), Sampling(top_p=0.999), hot, cold):
        token = int(sampling.choose(log_probs, np.float32(draw), how)[0, 0])
        assert token == (2 if draw == 0 else 5)


def test_the_random_numbers_are_those_of_the_seed_and_the_sentence():
    numbers = sampling.draws(3, [5, 7, 1], 40)
    assert numbers.dtype == np.float32 and (numbers >= 0).all() and (numbers < 1).all()
    np.testing.assert_array_equal(sampling.draws(3, [5, 7, 1], 9), numbers[:9])
    others = [sampling.draws(4, [5, 7, 1], 40), sampling.draws(3, [57, 1], 40)]
    assert all((other != numbers).all() for other in others)
    many = np.concatenate([sampling.draws(0, [i, 1], 50) for i in range(200)])
    assert abs(many.mean() - 0.5) < 0.01 and abs(many.std() - 12**-0.5) < 0.01
