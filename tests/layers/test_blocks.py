"""The layers as building blocks: their masks, and that they are the model's own."""

import json

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.layers import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    LocalSelfAttention,
    MultiHeadAttention,
    PrePostProcess,
    RelativeSelfAttention,
    SelfAttention,
    SymbolEmbedding,
    TokenAndPositionEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from t2t_repro.layers.blockwise_attention import BlockwiseCrossAttention, BlockwiseSelfAttention

B, T, S, D, N, F = 2, 5, 7, 12, 3, 20
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(B, T, D)).astype("float32")
MEMORY = DRAW.normal(size=(B, S, D)).astype("float32")
REAL = np.arange(S) < np.array([[4], [6]])  # (B, S)
IDS = np.where(REAL, 3, 0)
PAIRS = np.broadcast_to(REAL[:, None], (B, S, S)) & np.tri(S, dtype=bool)
# Each way of saying that nobody looks at padding nor ahead, of self-attention.
KINDS = {
    "plain": lambda: SelfAttention(N),
    "relative": lambda: RelativeSelfAttention(2, N),
    "blockwise": lambda: BlockwiseSelfAttention(3, N),
    "multi-head": lambda: MultiHeadAttention(N, key_dim=4),
    "encoder": lambda: EncoderLayer(N, F),
}


@pytest.mark.parametrize("process", [("n", "da"), ("none", "dan")])
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_a_block_round_trips_and_trains(kind, process):
    layer = kind(N, F, *process, dropout=0.1)
    more = (MEMORY,) if kind is DecoderLayer else ()
    first = np.asarray(layer(X, *more))
    again = kind.from_config(json.loads(json.dumps(layer.get_config())))
    again(X, *more)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(X, *more), first)
    symbols = [keras.Input(x.shape[1:]) for x in (X, *more)]
    model = keras.Model(symbols, layer(*symbols))
    model.compile("sgd", "mse", run_eagerly=True)
    assert np.isfinite(model.train_on_batch([X, *more], X))


def test_nobody_looks_at_what_the_mask_leaves_out():
    encoder = EncoderLayer(N, F)
    first = np.asarray(encoder(MEMORY, mask=REAL))
    changed = np.where(REAL[..., None], MEMORY, 9.0).astype("float32")
    np.testing.assert_allclose(encoder(changed, mask=REAL)[REAL], first[REAL], atol=1e-6)
    assert not np.allclose(encoder(changed)[REAL], first[REAL], atol=1e-3)
    decoder = DecoderLayer(N, F)
    first = np.asarray(decoder(X, MEMORY, memory_mask=REAL))
    np.testing.assert_allclose(decoder(X, changed, memory_mask=REAL), first, atol=1e-6)
    ahead = np.where(np.arange(T)[:, None] < 3, X, 9.0).astype("float32")
    np.testing.assert_allclose(
        decoder(ahead, MEMORY, memory_mask=REAL)[:, :3], first[:, :3], atol=1e-6
    )
    causal = np.asarray(encoder(X, use_causal_mask=True))
    np.testing.assert_allclose(
        encoder(ahead, use_causal_mask=True)[:, :3], causal[:, :3], atol=1e-6
    )


@pytest.mark.filterwarnings("error:.*mask")
def test_an_implicit_mask_is_the_mask_that_is_given():
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    encoder, decoder = EncoderLayer(N, F), DecoderLayer(N, F)
    x = embedding(IDS)
    memory = encoder(x)
    plain = keras.ops.convert_to_tensor(np.asarray(x))
    np.testing.assert_allclose(memory, encoder(plain, mask=REAL), atol=1e-6)
    given = decoder(X, np.asarray(memory), memory_mask=REAL)
    np.testing.assert_allclose(decoder(X, memory), given, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_may_be_said_in_each_way(kind):
    layer = KINDS[kind]()

    def call(*arguments, **masks):
        outputs = layer(*arguments, **masks)
        return np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)

    x = keras.layers.Embedding(5, D, mask_zero=True)(IDS)
    plain = np.asarray(x)
    of_padding = {"query_mask" if kind == "multi-head" else "mask": REAL}
    expected = call(plain, attention_mask=PAIRS)
    assert np.abs(expected - call(plain)).max() > 1e-3
    for found in (
        call(plain, **of_padding, use_causal_mask=True),
        call(plain, **of_padding, attention_mask=np.tri(S, dtype=bool)[None].repeat(B, 0)),
        call(x, use_causal_mask=True),
        call(x, attention_mask=np.tri(S, dtype="int32")[None, None].repeat(B, 0)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("make", [CrossAttention, lambda n: BlockwiseCrossAttention(3, n)])
def test_masks_of_memory_may_be_said_in_each_way(make):
    layer = make(N)
    memory = keras.layers.Embedding(5, D, mask_zero=True)(IDS)
    plain = np.asarray(memory)
    expected = np.asarray(layer(X, plain, attention_mask=REAL[:, None].repeat(T, 1))[0])
    assert np.abs(expected - np.asarray(layer(X, plain)[0])).max() > 1e-3
    np.testing.assert_allclose(layer(X, plain, memory_mask=REAL)[0], expected, atol=1e-5)
    np.testing.assert_allclose(layer(X, memory)[0], expected, atol=1e-5)
    np.testing.assert_allclose(
        layer(X, plain, attention_mask=REAL[:, None])[0], expected, atol=1e-5
    )


def test_a_mask_of_other_lengths_is_refused():
    layer = CrossAttention(N)
    for shape, axis, received in (((B, T, S + 2), "S", S + 2), ((B, T - 1, S), "T", T - 1)):
        with pytest.raises(UserError, match=f" or 1 as {axis}, .*Received: {received}. Cut it"):
            layer(X, MEMORY, attention_mask=np.ones(shape, "bool"))


@pytest.mark.parametrize("training", [False, True])
def test_inputs_of_another_width_are_refused(training):
    itself, other = SelfAttention(N), MultiHeadAttention(N, key_dim=4)
    itself(X), other(X, MEMORY)
    for call in (lambda x: itself(x, training=training), lambda x: other(X, x, training=training)):
        with pytest.raises(UserError, match=f"of width {D}, .*Received: shape \\(2, 5, 24\\)"):
            call(np.ones((B, T, 2 * D), "float32"))


def test_multi_head_attention_is_that_of_keras():
    ours, theirs = MultiHeadAttention(N, key_dim=4), keras.layers.MultiHeadAttention(N, 4)
    theirs(X, MEMORY)
    ours(X, MEMORY)
    query, key_value, output = ours.get_weights()
    key, value = np.split(key_value, 2, axis=1)
    kernels = [x.reshape(D, N, 4) for x in (query, key, value)]
    biases = np.zeros((N, 4), "float32")
    weights = [*(x for kernel in kernels for x in (kernel, biases)), output.reshape(N, 4, D)]
    theirs.set_weights([*weights, np.zeros(D, "float32")])
    found = ours(X, MEMORY, value_mask=REAL)
    np.testing.assert_allclose(found, theirs(X, MEMORY, value_mask=REAL), atol=1e-5)


def test_values_are_as_wide_as_keys_where_nothing_else_is_said():
    layer = MultiHeadAttention(N, key_dim=5)
    layer.build(X.shape)
    assert [w.shape for w in layer.weights] == [(D, N * 5), (D, 2 * N * 5), (N * 5, D)]
    assert layer.get_config()["value_dim"] == 5


@pytest.mark.parametrize("first", [True, False])
def test_keras_hub_s_layers_are_ours_by_other_arguments(first):
    before, after = ("n", "da") if first else ("none", "dan")
    ours = {"preprocess": before, "postprocess": after, "norm_epsilon": 1e-4, "activation": "gelu"}
    theirs = {"normalize_first": first, "layer_norm_epsilon": 1e-4, "activation": "gelu"}
    x = keras.layers.Embedding(5, D, mask_zero=True)(IDS)
    plain, none = np.asarray(x), np.ones((B, S), bool)
    pairs = np.tri(S, dtype=bool)[None].repeat(B, 0)

    def twins(kind, other, *inputs):
        one, two = kind(N, F, **ours), other(F, N, **theirs)
        one(*inputs), two(*inputs)
        two.set_weights(one.get_weights())
        return one, two

    one, two = twins(EncoderLayer, TransformerEncoder, plain)
    for found, expected in (
        (two(x), one(x)),
        (two(plain, padding_mask=REAL), one(x)),
        (two(x, none, attention_mask=pairs), one(plain, use_causal_mask=True)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    one, two = twins(DecoderLayer, TransformerDecoder, X, plain)
    to = np.broadcast_to(REAL[:, None], (B, T, S))
    for found, expected in (
        (two(X, x), one(X, plain, memory_mask=REAL)),
        (two(X, plain, encoder_padding_mask=REAL), one(X, x)),
        (two(X, plain, encoder_attention_mask=to), one(X, x)),
        (two(X, plain, use_causal_mask=False), one(X, plain, use_causal_mask=False)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    alone, one = TransformerDecoder(F, N, **theirs), EncoderLayer(N, F, **ours)
    alone(x), one(x)
    one.set_weights(alone.get_weights())
    np.testing.assert_allclose(alone(x), one(x, use_causal_mask=True), atol=1e-6)
    with pytest.raises(UserError):
        alone(plain, plain)


def test_dropout_of_keras_hub_s_layers_is_behind_sublayers_and_on_weights():
    layer = TransformerEncoder(F, N, dropout=0.25)
    layer(X)
    own, ffn = layer.layer.self_attention, layer.layer.ffn
    rates = (own.layer.dropout, own.postprocess.dropout, ffn.postprocess.dropout, ffn.layer.dropout)
    assert rates == (0.25, 0.25, 0.25, 0.0)


def test_multi_head_attention_takes_no_key_apart():
    for more in ({"key": X}, {"return_attention_scores": True}):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{[*more][0]}'"):
            MultiHeadAttention(N)(X, X, **more)
    with pytest.raises(TypeError):
        MultiHeadAttention(N)(X, X, X)


def test_the_weights_of_a_layer():
    encoder, decoder = EncoderLayer(N, F), DecoderLayer(N, F)
    encoder(MEMORY), decoder(X, MEMORY)
    own = np.asarray(encoder.attention_weights(MEMORY, mask=REAL)["self_attention"])
    assert own.shape == (B, N, S, S)
    np.testing.assert_array_equal(own == 0, np.broadcast_to(~REAL[:, None, None], own.shape))
    both = decoder.attention_weights(X, MEMORY, memory_mask=REAL)
    assert np.triu(both["self_attention"], 1).max() == 0
    assert both["encdec_attention"].shape == (B, N, T, S)


def test_the_weights_of_a_layer_know_an_implicit_mask_and_are_outputs_of_a_model(tmp_path):
    ids = keras.Input((S,), dtype="int32")
    table = keras.layers.Embedding(11, D, mask_zero=True)
    encoder, decoder = EncoderLayer(N, F), DecoderLayer(N, F)
    memory = encoder(table(ids))
    decoder(table(ids), memory)
    outputs = {
        **encoder.attention_weights(table(ids)),
        "encdec": decoder.attention_weights(table(ids), memory)["encdec_attention"],
    }
    model = keras.Model(ids, outputs)
    expected = model.predict(IDS, verbose=0)
    for weights in expected.values():
        np.testing.assert_array_equal(
            weights == 0, np.broadcast_to(~REAL[:, None, None], (B, N, S, S))
        )
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras").predict(IDS, verbose=0)
    for name, weights in expected.items():
        np.testing.assert_array_equal(again[name], weights)


@pytest.mark.parametrize("how", ["constructed", "loaded", "cloned"])
def test_layers_that_are_frozen_stay_so(how, tmp_path):
    given = {"trainable": False} if how == "constructed" else {}
    embedding = TokenAndPositionEmbedding(11, D, "emb", max_length=S, **given)
    kinds = (EncoderLayer(N, F, **given), TransformerEncoder(F, N, **given))
    layers = [*kinds, MultiHeadAttention(N, **given), PrePostProcess("n", **given)]
    ids = keras.Input((None,), dtype="int32")
    x = embedding(ids)
    for layer in layers:
        x = layer(x)
    model = keras.Model(ids, keras.layers.Dense(2)(x))
    for layer in (embedding, *layers) if how != "constructed" else ():
        layer.trainable = False
    if how == "loaded":
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
    if how == "cloned":
        model = keras.models.clone_model(model)
    assert len(model.trainable_variables) == 2 < len(model.variables)


def test_embeddings_mask_and_go_back():
    layer = TokenAndPositionEmbedding(11, D, pos="emb", max_length=S, mask_zero=True)
    symbol = keras.Input((None,), dtype="int32")
    model = keras.Model(symbol, layer(EncoderLayer(N, F)(layer(symbol)), reverse=True))
    assert model(IDS).shape == (B, S, 11)
    assert len(model.trainable_variables) == 2 + 10
    x = layer(IDS)
    np.testing.assert_array_equal(layer.compute_mask(IDS), REAL)
    table, positions = layer.get_weights()
    np.testing.assert_allclose(x[0, 2], D**0.5 * table[3] + positions[2], atol=1e-5)
    np.testing.assert_allclose(layer(x, reverse=True), np.asarray(x) @ table.T, atol=1e-5)
    assert SymbolEmbedding(11, D).compute_mask(IDS) is None
    # Keras's Input is of floats where nothing else is said.
    np.testing.assert_array_equal(layer(IDS.astype("float32")), x)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: EncoderLayer(N, intermediate_dim=F),
            "Unknown argument of EncoderLayer. Received: 'intermediate_dim'. .* filter_size",
        ),
        (lambda: EncoderLayer(N, F, layer_norm_epsilon=1e-4), "Did you mean 'norm_epsilon'"),
        (
            lambda: TransformerEncoder(F, N, bias_initializer="ones"),
            "of TransformerEncoder. Received: 'bias_initializer'. Did you mean 'kernel_initializer",
        ),
        (lambda: MultiHeadAttention(N, use_bias=False), "Received: 'use_bias'. Expected one of"),
        (lambda: SymbolEmbedding(vocabulary_size=11), "Did you mean 'vocab_size'"),
        (lambda: SelfAttention(5)(X), "key_channels, or the model size.* 12 channels, 5 heads"),
        (lambda: SelfAttention(N, 6, 8)(X), "Expected value_channels.* Received: 8 channels, 3 he"),
        (
            lambda: EncoderLayer(N, F)(X, attention_mask=REAL),
            "B, T, S.* Received: .2, 7.. .*`mask`",
        ),
        (
            lambda: LocalSelfAttention(2, True, N)(MEMORY, attention_mask=PAIRS),
            "Expected masks of a sequence.* Received: attention_mask",
        ),
        (lambda: PrePostProcess("dax"), "letters of 'adn.* Received: 'dax'"),
        (lambda: PrePostProcess("n", "lair"), "Unknown norm_type. .* Did you mean"),
        (lambda: EncoderLayer(N, F, "na")(X), "Expected `previous`, .* 'na' adds"),
        (lambda: TokenAndPositionEmbedding(11, D, "time"), "Unknown pos.* 'timing'"),
        (lambda: TokenAndPositionEmbedding(11, 7, D), "Unknown pos. Received: '12'. .* timing"),
        (
            lambda: SymbolEmbedding(11, D).logits(keras.Input((None, D))),
            "Received: a KerasTensor.*reverse=True",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
