"""Attention against a second, naive implementation."""

import numpy as np

from t2t_repro.layers.attention import (
    CAUSAL,
    CrossAttention,
    Mask,
    RelativeSelfAttention,
    SelfAttention,
    of_padding,
)

B, T, S, D, N = 2, 5, 7, 12, 3


def naive(queries, keys, values, kernels, mask, relative=None):
    """One loop for each batch, head and query, as the paper's equation reads."""
    q, k, v = (x @ kernel for x, kernel in zip((queries, keys, values), kernels, strict=False))
    size, width = q.shape[-1] // N, v.shape[-1] // N
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for b in range(q.shape[0]):
        for n in range(N):
            for t in range(q.shape[1]):
                query = q[b, t, n * size : (n + 1) * size] / np.sqrt(size)
                logits = []
                for s in range(k.shape[1]):
                    key = k[b, s, n * size : (n + 1) * size]
                    key = key + relative[0][s - t] if relative else key
                    logits.append(query @ key if mask[b, t, s] else -np.inf)
                weights = np.exp(logits - np.max(logits))
                weights /= weights.sum()
                for s, weight in enumerate(weights):
                    value = v[b, s, n * width : (n + 1) * width]
                    value = value + relative[1][s - t] if relative else value
                    out[b, t, n * width : (n + 1) * width] += weight * value
    return out @ kernels[3]


def data(length):
    return np.random.default_rng(length).normal(size=(B, length, D)).astype("float32")


def test_a_segment_sees_itself():
    queries = np.array([[1, 2, 2], [1, 1, 0]], "int32")
    keys = np.array([[1, 1, 2, 0], [1, 2, 1, 0]], "int32")
    mask = np.asarray(Mask(queries, keys).whole(3, 4))
    assert mask.shape == (2, 1, 3, 4)
    assert mask[0, 0].tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]
    assert mask[1, 0].tolist() == [[1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]]


def test_attention_is_the_papers_equation():
    x, memory, back = data(T), data(S), np.broadcast_to(np.tri(T, dtype=bool), (B, T, T))
    own = SelfAttention(N, 6, 9)
    y, weights = own(x, attention_mask=CAUSAL)
    fused, output = own.get_weights()
    kernels = [*np.split(fused, [6, 12], axis=1), output]
    np.testing.assert_allclose(y, naive(x, x, x, kernels, back), atol=1e-5)
    np.testing.assert_allclose(np.sum(weights, -1), 1, rtol=1e-5)

    cross, real = CrossAttention(N, 6, 9), np.arange(S)[None] < np.array([[S], [4]])
    y, _ = cross(x, memory=memory, attention_mask=of_padding(real))
    query, fused, output = cross.get_weights()
    kernels = [query, *np.split(fused, [6], axis=1), output]
    mask = np.broadcast_to(real[:, None], (B, T, S))
    np.testing.assert_allclose(y, naive(x, memory, memory, kernels, mask), atol=1e-5)

    relative = RelativeSelfAttention(2, N, 6, 9)
    y, _ = relative(x, attention_mask=CAUSAL)
    fused, output, *tables = relative.get_weights()
    kernels = [*np.split(fused, [6, 12], axis=1), output]
    near = [{d: table[np.clip(d, -2, 2) + 2] for d in range(-T, T)} for table in tables]
    np.testing.assert_allclose(y, naive(x, x, x, kernels, back, near), atol=1e-5)
