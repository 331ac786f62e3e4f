"""One harness for every layer: config round trip, weights, symbolic call, one compiled fit step."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from t2t_repro.layers import attention_score
from t2t_repro.layers.attention import CrossAttention, SelfAttention
from t2t_repro.layers.dilated_convolution import (
    ConvolutionBlock,
    DilatedConvolution,
    ResidualConvolutions,
)
from t2t_repro.layers.embedding import SymbolEmbedding
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.lstm import (
    LSTM,
    AttentionLSTM,
    BidirectionalLSTM,
    LSTMStack,
    LuongScore,
)
from t2t_repro.layers.mask import CAUSAL, Mask
from t2t_repro.layers.norms import LayerNorm
from t2t_repro.layers.position import NoPositions
from t2t_repro.layers.prepostprocess import PrePostProcess
from t2t_repro.layers.stacks import DecoderSublayers, EncoderSublayers, Stack, Sublayer

B, T, S, D, N, F = 2, 5, 7, 12, 3, 20


def sublayer(layer) -> Sublayer:
    return Sublayer(layer, PrePostProcess("n"), PrePostProcess("da", dropout=0.1))


def encoder_layer() -> EncoderSublayers:
    return EncoderSublayers(sublayer(SelfAttention(N, D, D)), sublayer(FeedForward(F)))


def decoder_layer() -> DecoderSublayers:
    return DecoderSublayers(
        sublayer(SelfAttention(N, D, D)),
        sublayer(CrossAttention(N, D, D)),
        sublayer(FeedForward(F)),
    )


NORM = 2 * D
ENCODER = 4 * D * D + (2 * D * F + F + D) + 2 * NORM
DECODER = ENCODER + 4 * D * D + NORM
MEMORY = {"memory": np.random.default_rng(1).normal(size=(B, S, D)).astype("float32")}
CROSS = {**MEMORY, "attention_mask": Mask(keys=np.ones((B, S), "int32"))}
OWN = {"attention_mask": CAUSAL}
REAL = {"real": np.arange(T) < np.array([[T], [3]])}
CELL = 8 * D * D + 4 * D
CONVOLUTION = 3 * D * D + NORM
LAYERS = {
    **{
        kind: (lambda kind=kind: PrePostProcess("n", kind, 1e-5), weights, {})
        for kind, weights in {"batch": 2 * NORM, "noam": 0, "l2": NORM}.items()
    },
    "no norm": (lambda: PrePostProcess("dn", norm_type="none", dropout=0.2), 0, {}),
    "two norms": (lambda: PrePostProcess("ndn", dropout=0.2), 2 * NORM, {}),
    "no positions": (NoPositions, 0, {}),
    "unscaled": (lambda: SelfAttention(N, 6, 9, score="dot_product"), D * 21 + 9 * D, OWN),
    "multiplicative": (
        lambda: CrossAttention(N, 6, 9, score="multiplicative"),
        D * 21 + 9 * D + N * 2 * 2,
        CROSS,
    ),
    "additive": (
        lambda: SelfAttention(N, 6, 9, score=attention_score.Additive("orthogonal")),
        D * 21 + 9 * D + N * (2 * 2 * 2 + 2),
        OWN,
    ),
    "encoder_layer": (encoder_layer, ENCODER, OWN),
    "decoder_layer": (decoder_layer, DECODER, {**MEMORY, "memory_mask": CROSS["attention_mask"]}),
    "lstm": (lambda: LSTM(D), CELL, REAL),
    "lstm stack": (lambda: LSTMStack([LSTM(D), LSTM(D)], 0.1), 2 * CELL, REAL),
    "convolutions": (lambda: ConvolutionBlock(D, (1, 2, 4)), 3 * CONVOLUTION, {}),
    "residual convolutions": (
        lambda: ResidualConvolutions([ConvolutionBlock(D, (2,), causal=True)], 0.1),
        CONVOLUTION + NORM,
        {},
    ),
    "stack": (lambda: Stack([encoder_layer()], PrePostProcess("n")), ENCODER + NORM, OWN),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name):
    make, weights, arguments = LAYERS[name]
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    layer = make()
    first = outputs(layer(x, **arguments))
    assert first.shape == (B, T, D)
    assert layer.count_params() == weights

    config = json.loads(json.dumps(layer.get_config()))
    again = type(layer).from_config(config)
    again(x, **arguments)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(outputs(again(x, **arguments)), first)

    symbol = keras.Input((T, D), batch_size=B)
    model = keras.Model(symbol, outputs(make()(symbol, **arguments)))
    model.compile(optimizer="sgd", loss="mse")
    assert np.isfinite(model.train_on_batch(x, x))

    half = make_in("mixed_bfloat16", make)
    assert outputs(half(x, **arguments)).dtype == "bfloat16"


def make_in(policy: str, make):
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        return make()
    finally:
        keras.mixed_precision.set_global_policy(before)


def outputs(result):
    return result[0] if isinstance(result, tuple) else result


def test_embedding_counts_shares_and_masks():
    layer = SymbolEmbedding(11, D, num_shards=3, scale=2.0)
    x = np.asarray(layer(np.array([[4, 0, 10]])))
    assert layer.count_params() == 11 * D
    assert (layer.embeddings.axis, layer.embeddings.sizes) == (0, (4, 4, 3))
    assert layer.embeddings.cuts == [4, 8]
    table = np.asarray(layer.embeddings.value)
    np.testing.assert_allclose(x[0, 0], 2 * table[4], rtol=1e-6)
    np.testing.assert_array_equal(x[0, 1], np.zeros(D))
    np.testing.assert_allclose(layer.logits(x)[0, 2], 2 * table @ table[10], rtol=1e-5)
    again = SymbolEmbedding.from_config(json.loads(json.dumps(layer.get_config())))
    assert again.get_config() == layer.get_config()


def test_dropout_of_almost_one_leaves_what_the_sequence_says():
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    for sequence, expected in (("da", x), ("dan", np.asarray(LayerNorm()(x)))):
        after = PrePostProcess(sequence, dropout=0.99999)
        layer = Sublayer(FeedForward(F), PrePostProcess("none"), after)
        y, weights = layer(x, training=True)
        np.testing.assert_allclose(y, expected, atol=1e-5)
        assert weights is None


def test_layer_norm_is_float32_under_bfloat16():
    x = np.full((1, 1, 64), 1000.0, "float32")
    x[0, 0, 0] = 1001.0  # bfloat16 cannot tell these apart
    exact = np.asarray(LayerNorm()(x))
    half = LayerNorm(dtype="mixed_bfloat16")
    half.build(x.shape)
    centred = np.asarray(ops.cast(half.call(ops.convert_to_tensor(x)), "float32"))
    np.testing.assert_allclose(centred, exact, rtol=1e-2, atol=1e-2)


def test_the_shapes_that_are_said_are_those_of_the_outputs():
    x, real = np.ones((B, T, D), "float32"), np.ones((B, T), "bool")
    memory = np.ones((B, S, 4), "float32")
    stack = LSTMStack([LSTM(8), LSTM(6)])
    sides = LSTMStack([LSTM(8), LSTM(6)]), LSTMStack([LSTM(9), LSTM(6)])
    looking = AttentionLSTM(LSTMStack([LSTM(6)]), LuongScore(6, 2), 10)
    looking.build(x.shape, memory.shape)
    states = [{"c": np.zeros((B, 1, 6), "float32"), "h": np.zeros((B, 1, 6), "float32")}]
    for layer, *arguments in (
        (LSTM(8), real),
        (stack, real),
        (BidirectionalLSTM(*sides), real),
        (DilatedConvolution(F),),
        (ConvolutionBlock(F, (1, 2)),),
        (EncoderSublayers(sublayer(SelfAttention(N)), sublayer(FeedForward(F))),),
    ):
        assert layer.compute_output_shape(x.shape) == outputs(layer(x, *arguments)).shape
    found = looking(x, real, states=states, memory=memory).shape
    assert looking.compute_output_shape(x.shape, memory.shape) == found
    ids = np.ones((B, T), "int32")
    embedding = SymbolEmbedding(11, D)
    assert embedding.compute_output_shape(ids.shape) == embedding(ids).shape
