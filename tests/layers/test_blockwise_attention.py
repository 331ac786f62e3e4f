"""Attention in blocks equals plain attention, whatever the blocks and the masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro.layers.attention import CAUSAL, MASKED, of_padding
from t2t_repro.layers.blockwise_attention import blockwise_attention

B, N, T, S, H, V = 2, 3, 11, 13, 5, 4


def heads(*shape, scale=1.0):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype("float32")


def plain(queries, keys, values, mask=True):
    logits = np.where(mask, queries @ keys.swapaxes(2, 3), MASKED).astype("float64")
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


@pytest.mark.parametrize(
    "query_block, key_block", [(4, 5), (11, 13), (1, 1), (100, 100), (3, None)]
)
def test_blocks_of_any_size_equal_plain_attention(query_block, key_block):
    q, k, v = heads(B, N, T, H), heads(B, N, S, H), heads(B, N, S, V)
    got = blockwise_attention(q, k, v, query_block=query_block, key_block=key_block)
    np.testing.assert_allclose(got, plain(q, k, v), atol=1e-5)


@pytest.mark.parametrize("real", [6, 0])
@pytest.mark.parametrize("query_block, key_block", [(4, 5), (11, 13), (100, 3)])
def test_gradients_through_blocks_of_any_size_are_those_of_plain_attention(
    query_block, key_block, real
):
    """Of blocks that overlap, too: 4 does not divide T, nor 5 and 3 S. And of nothing but padding,
    which is weighed alike."""
    inputs = [tf.constant(x) for x in (heads(B, N, T, H), heads(B, N, S, H), heads(B, N, S, V))]
    upstream = tf.constant(heads(B, N, T, V))
    mask = np.arange(S) < np.array([[S], [real]])

    def gradients(attend):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(attend(*inputs) * upstream)
        return tape.gradient(loss, inputs)

    def whole(q, k, v):
        logits = tf.where(mask[:, None, None], tf.matmul(q, k, transpose_b=True), MASKED)
        return tf.matmul(tf.nn.softmax(logits), v)

    def in_blocks(q, k, v):
        blocks = {"query_block": query_block, "key_block": key_block}
        return blockwise_attention(q, k, v, of_padding(mask), **blocks)

    for got, expected in zip(gradients(in_blocks), gradients(whole), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_each_query_looks_back_only():
    q, k, v = heads(B, N, S, H), heads(B, N, S, H), heads(B, N, S, V)
    got = blockwise_attention(q, k, v, mask=CAUSAL, query_block=4, key_block=3)
    np.testing.assert_allclose(got, plain(q, k, v, np.tri(S, dtype=bool)), atol=1e-5)


def test_logits_far_apart_do_not_overflow():
    q, k, v = heads(B, N, T, H, scale=30), heads(B, N, S, H, scale=30), heads(B, N, S, V)
    got = np.asarray(blockwise_attention(q, k, v, query_block=4, key_block=5))
    np.testing.assert_allclose(got, plain(q, k, v), atol=1e-5)


def test_compiled_with_any_batch_and_in_bfloat16():
    inputs = keras.Input((N, S, H))
    layer = keras.layers.Lambda(lambda x: blockwise_attention(x, x, x, mask=CAUSAL, key_block=5))
    model = keras.Model(inputs, layer(inputs))
    x = heads(B, N, S, H)
    expected = plain(x, x, x, np.tri(S, dtype=bool))
    np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-5)
    low = blockwise_attention(*[ops.cast(x, "bfloat16")] * 3, mask=CAUSAL)
    assert keras.backend.standardize_dtype(low.dtype) == "bfloat16"
    np.testing.assert_allclose(ops.cast(low, "float32"), expected, atol=0.05)
