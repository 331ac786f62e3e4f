"""Each score is its formula, and its gradients are those that the backend derives."""

import math

import keras
import numpy as np
import pytest

from t2t_repro.layers.attention import SCORES, get_score

B, N, T, S, H = 2, 3, 4, 5, 6


def heads(length):
    return np.random.default_rng(length).standard_normal((B, N, length, H)).astype("float32")


def made(name):
    keras.utils.set_random_seed(4)
    score = get_score(name)
    score.build((None, N, None, H))
    return score


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_its_formula(name):
    score, q, k = made(name), heads(T), heads(S)
    weights = {w.name: np.asarray(w) for w in score.weights}
    w, u = (np.split(weights.get(f"{x}_kernel", np.zeros((H, N))), N, 1) for x in ("query", "key"))
    v = weights.get("vector", np.zeros((H, N))).T
    formula = {
        "dot_product": lambda n, q, k: q @ k,
        "scaled_dot_product": lambda n, q, k: q @ k / math.sqrt(H),
        "multiplicative": lambda n, q, k: q @ w[n] @ k,
        "additive": lambda n, q, k: np.tanh(q @ w[n] + k @ u[n]) @ v[n],
    }[name]
    got = np.asarray(score(score.queries(q), score.keys(k)))
    for b, n, t, s in np.ndindex(B, N, T, S):
        expected = formula(n, q[b, n, t], k[b, n, s])
        np.testing.assert_allclose(got[b, n, t, s], expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_its_gradients_are_those_of_its_logits(name):
    import tensorflow as tf

    score = made(name)
    q, k, upstream = (tf.constant(x) for x in (heads(T), heads(S), heads(T) @ np.ones((H, S), "f")))
    variables = [tf.convert_to_tensor(v) for v in score.score_weights()]
    with tf.GradientTape() as tape:
        tape.watch([q, k, *variables])
        logits = score.scores(q, k, variables)
    expected = tape.gradient(logits, [q, k, *variables], upstream)
    of_q, of_k, of_variables = score.gradients(q, k, variables, upstream)
    for got, wanted in zip([of_q, of_k, *of_variables], expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
