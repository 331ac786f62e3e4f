"""The layers as building blocks: their masks, and that they are the model's own."""

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.layers import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LocalSelfAttention,
    MultiHeadAttention,
    PrePostProcess,
    RelativeSelfAttention,
    SelfAttention,
    SymbolEmbedding,
    TokenAndPositionEmbedding,
)

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
    "chunks": lambda: SelfAttention(N, chunk_size=3),
    "multi-head": lambda: MultiHeadAttention(N, key_dim=4),
    "encoder": lambda: EncoderLayer(N, F),
}


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


@pytest.mark.parametrize("chunk_size", [0, 3])
def test_masks_of_memory_may_be_said_in_each_way(chunk_size):
    layer = CrossAttention(N, chunk_size=chunk_size)
    memory = keras.layers.Embedding(5, D, mask_zero=True)(IDS)
    plain = np.asarray(memory)
    expected = np.asarray(layer(X, plain, attention_mask=REAL[:, None].repeat(T, 1))[0])
    assert np.abs(expected - np.asarray(layer(X, plain)[0])).max() > 1e-3
    np.testing.assert_allclose(layer(X, plain, memory_mask=REAL)[0], expected, atol=1e-5)
    np.testing.assert_allclose(layer(X, memory)[0], expected, atol=1e-5)
    np.testing.assert_allclose(
        layer(X, plain, attention_mask=REAL[:, None])[0], expected, atol=1e-5
    )


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


def test_a_feed_forward_layer_leaves_nothing_at_padding():
    layer = FeedForward(F)
    expected = np.asarray(layer(MEMORY)) * REAL[..., None]
    np.testing.assert_allclose(layer(MEMORY, real=REAL), expected, atol=1e-6)


def test_the_weights_of_a_layer():
    encoder, decoder = EncoderLayer(N, F), DecoderLayer(N, F)
    encoder(MEMORY), decoder(X, MEMORY)
    own = np.asarray(encoder.attention_weights(MEMORY, mask=REAL)["self_attention"])
    assert own.shape == (B, N, S, S)
    np.testing.assert_array_equal(own == 0, np.broadcast_to(~REAL[:, None, None], own.shape))
    both = decoder.attention_weights(X, MEMORY, memory_mask=REAL)
    assert np.triu(both["self_attention"], 1).max() == 0
    assert both["encdec_attention"].shape == (B, N, T, S)


@pytest.mark.parametrize("how", ["constructed", "loaded", "cloned"])
def test_layers_that_are_frozen_stay_so(how, tmp_path):
    given = {"trainable": False} if how == "constructed" else {}
    embedding = TokenAndPositionEmbedding(11, D, "emb", max_length=S, **given)
    layers = [
        EncoderLayer(N, F, **given),
        MultiHeadAttention(N, **given),
        PrePostProcess("n", **given),
    ]
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
    "call",
    [
        lambda: SelfAttention(5)(X),  # 12 channels, 5 heads
        lambda: SelfAttention(N, dropout=0.1, chunk_size=3),
        lambda: RelativeSelfAttention(2, N, chunk_size=3),
        lambda: EncoderLayer(N, F)(X, attention_mask=REAL),
        lambda: LocalSelfAttention(2, True, N)(MEMORY, attention_mask=PAIRS),
        lambda: TokenAndPositionEmbedding(11, D, "time"),
    ],
)
def test_what_would_be_computed_wrongly_is_refused(call):
    with pytest.raises(UserError):
        call()


@pytest.mark.parametrize("make", [lambda: MultiHeadAttention(N, 4), lambda: DecoderLayer(N, F)])
def test_memory_may_have_another_width(make, tmp_path):
    queries, values = keras.Input((None, D)), keras.Input((None, 18))
    model = keras.Model([queries, values], make()(queries, values))
    both = [X, DRAW.normal(size=(B, S, 18)).astype("float32")]
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again(both), model(both))
    assert np.abs(model([both[0], both[1] + 1]) - model(both)).max() > 1e-3
