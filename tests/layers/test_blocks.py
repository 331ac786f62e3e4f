"""The layers as building blocks: their examples, their masks, and that they are the model's own."""

import doctest
import json

import keras
import numpy as np
import pytest

from t2t_repro import layers
from t2t_repro.layers import TransformerDecoder, TransformerEncoder, blocks

B, T, S, D, N, F = 2, 5, 7, 12, 3, 20
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(B, T, D)).astype("float32")
MEMORY = DRAW.normal(size=(B, S, D)).astype("float32")
REAL = np.arange(S) < np.array([[4], [6]])  # (B, S)


def test_the_examples_run():
    failed, tried = doctest.testmod(blocks)
    assert tried > 8 and not failed


def test_the_door_shows_the_layers():
    assert set(layers.__all__) <= set(dir(layers))
    assert all(issubclass(getattr(layers, name), keras.layers.Layer) for name in layers.__all__)


@pytest.mark.parametrize("process", [("n", "da"), ("none", "dan")])
@pytest.mark.parametrize("kind", [TransformerEncoder, TransformerDecoder])
def test_a_block_round_trips_and_trains(kind, process):
    layer = kind(N, F, *process, dropout=0.1)
    more = (MEMORY,) if kind is TransformerDecoder else ()
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
    encoder = TransformerEncoder(N, F)
    first = np.asarray(encoder(MEMORY, mask=REAL))
    changed = np.where(REAL[..., None], MEMORY, 9.0).astype("float32")
    np.testing.assert_allclose(encoder(changed, mask=REAL)[REAL], first[REAL], atol=1e-6)
    assert not np.allclose(encoder(changed)[REAL], first[REAL], atol=1e-3)
    decoder = TransformerDecoder(N, F)
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
    ids = np.where(REAL, 3, 0)
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    encoder, decoder = TransformerEncoder(N, F), TransformerDecoder(N, F)
    x = embedding(ids)
    memory = encoder(x)
    plain = keras.ops.convert_to_tensor(np.asarray(x))
    np.testing.assert_allclose(memory, encoder(plain, mask=REAL), atol=1e-6)
    given = decoder(X, np.asarray(memory), memory_mask=REAL)
    np.testing.assert_allclose(decoder(X, memory), given, atol=1e-6)
