"""The masks of embeddings, in both directions."""

import keras
import numpy as np
import pytest

from t2t_repro.layers import SymbolEmbedding, TokenAndPositionEmbedding

B, T, D, V = 2, 5, 12, 11
REAL = np.arange(T) < np.array([[4], [2]])  # (B, T)
IDS = np.where(REAL, 3, 0)
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


def mask_of(x):
    return getattr(x, "_keras_mask", None)


@pytest.fixture(params=[SymbolEmbedding, TokenAndPositionEmbedding])
def layer(request):
    made = request.param(V, D, mask_zero=True)
    made(IDS)
    return made


def test_logits_have_the_mask_of_their_vectors(layer):
    assert layer(X[:, 0], reverse=True).shape == (B, V)
    for x in (X, X[:, 0], X[0, 0], keras.Input((D,)), keras.Input((None, D))):
        assert mask_of(layer(x, reverse=True)) is None
    np.testing.assert_array_equal(mask_of(layer(layer(IDS), reverse=True)), REAL)
    symbol = layer(keras.Input((None,), dtype="int32"))
    assert mask_of(layer(symbol, reverse=True)).shape == (None, None)
