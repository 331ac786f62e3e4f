"""Attention in blocks equals plain attention, whatever the blocks and the masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro.layers.attention import CAUSAL, MASKED, Additive, DotProduct, of_padding
from t2t_repro.layers.blockwise_attention import blockwise_attention

B, N, T, S, H, V = 2, 3, 11, 13, 5, 4


def heads(*shape, scale=1.0):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype("float32")


def in_blocks(queries, keys, values, mask, key_block, query_block=256):
    return blockwise_attention(queries, keys, values, mask, DotProduct(), key_block, query_block)


def plain(queries, keys, values, mask):
    logits = tf.where(mask, tf.matmul(queries, keys, transpose_b=True), MASKED)
    return tf.matmul(tf.nn.softmax(logits), values)


@pytest.mark.parametrize("real", [6, 0])
@pytest.mark.parametrize("query_block, key_block", [(4, 5), (11, 13), (100, 3), (1, 1)])
def test_blocks_of_any_size_and_their_gradients_are_plain_attention(query_block, key_block, real):
    """Of blocks that overlap, too: 4 does not divide T, nor 5 and 3 S. And of nothing but padding,
    which is weighed alike."""
    inputs = [tf.constant(x) for x in (heads(B, N, T, H), heads(B, N, S, H), heads(B, N, S, V))]
    upstream = tf.constant(heads(B, N, T, V))
    mask = np.arange(S) < np.array([[S], [real]])
    found = []
    for attend in (
        lambda *inputs: in_blocks(*inputs, of_padding(mask), key_block, query_block),
        lambda *inputs: plain(*inputs, mask[:, None, None]),
    ):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = attend(*inputs)
        found.append([outputs, *tape.gradient(outputs, inputs, upstream)])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_the_gradients_of_an_additive_score_in_blocks_are_the_plain_ones():
    score, found = Additive(), []
    score.build((B, N, T, H))
    inputs = [tf.constant(x) for x in (heads(B, N, T, H), heads(B, N, S, H), heads(B, N, S, V))]

    def in_one(queries, keys, values):
        hidden = tf.tanh(queries[:, :, :, None] + keys[:, :, None])
        logits = tf.einsum("bntsh,hn->bnts", hidden, score.vector.value)
        return tf.matmul(tf.nn.softmax(tf.where(np.tri(T, S, dtype=bool), logits, MASKED)), values)

    for attend in (lambda *of: blockwise_attention(*of, CAUSAL, score, 5, 4), in_one):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = attend(*inputs)
        upstream = tf.constant(heads(B, N, T, V))
        found.append(tape.gradient(outputs, [*inputs, score.vector.value], upstream))
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("scale", [1, 30])
def test_each_query_looks_back_only_and_logits_far_apart_do_not_overflow(scale):
    q, k, v = heads(B, N, S, H, scale=scale), heads(B, N, S, H, scale=scale), heads(B, N, S, V)
    got = in_blocks(q, k, v, CAUSAL, 3, 4)
    np.testing.assert_allclose(got, plain(q, k, v, np.tri(S, dtype=bool)), atol=1e-5)


def test_compiled_with_any_batch_and_in_bfloat16():
    inputs = keras.Input((N, S, H))
    layer = keras.layers.Lambda(lambda x: in_blocks(x, x, x, CAUSAL, 5))
    model = keras.Model(inputs, layer(inputs))
    x = heads(B, N, S, H)
    expected = plain(x, x, x, np.tri(S, dtype=bool))
    np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-5)
    low = in_blocks(*[ops.cast(x, "bfloat16")] * 3, CAUSAL, 5)
    assert keras.backend.standardize_dtype(low.dtype) == "bfloat16"
    np.testing.assert_allclose(ops.cast(low, "float32"), expected, atol=0.05)
