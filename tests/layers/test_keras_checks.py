"""Keras's own checks of a layer, over every public one: the harness that Keras has for its own.

It ships with Keras but is not public there: it is used in this module alone. It looks at the round
trip of the configuration, `build` from shapes, symbolic and eager calls, a training step of one
input, and mixed precision. Beside it stands a functional model of each layer, saved and loaded.
"""

import pathlib

import keras
import numpy as np
import pytest
from keras.src.testing import TestCase

from t2t_repro import layers
from tests import forks

B, T, S, D, N, F, V = 2, 5, 7, 12, 3, 20, 11
X, MEMORY = (B, T, D), (B, S, D)
PAIR = {"x_shape": X, "memory_shape": MEMORY}
HEADS = {"num_heads": N, "dropout": 0.1}
LAYER = {"num_heads": N, "filter_size": F, "dropout": 0.1}


# Per layer: its arguments, the shapes of its inputs, its number of variables.
CHECKED = {
    "CrossAttention": (
        {"num_heads": N, "key_channels": 6, "score": "additive", "chunk_size": 2},
        PAIR,
        6,
    ),
    "DecoderLayer": (LAYER, PAIR, 15),
    "EncoderLayer": ({**LAYER, "preprocess": "none", "postprocess": "dan"}, X, 10),
    "FeedForward": ({"filter_size": F, "dropout": 0.1}, X, 4),
    "LayerNorm": ({"epsilon": 1e-5}, X, 2),
    "LearnedPositions": ({"max_length": T}, X, 1),
    "LocalSelfAttention": ({"block_length": 2, "masked": True, "num_heads": N}, X, 2),
    "MultiHeadAttention": (
        {**HEADS, "key_dim": 2, "value_dim": 5},
        {"query_shape": X, "value_shape": MEMORY},
        3,
    ),
    "PrePostProcess": ({"sequence": "dan", "dropout": 0.1}, {"x_shape": X, "previous_shape": X}, 2),
    "RelativeSelfAttention": ({**HEADS, "max_relative_position": 2}, X, 4),
    "SelfAttention": ({**HEADS, "value_channels": 9, "dropout_broadcast_dims": (0, 1)}, X, 2),
    "SinusoidalPositions": ({}, X, 0),
    "SymbolEmbedding": ({"vocab_size": V, "hidden_size": D, "mask_zero": True}, (B, T), 1),
    "TargetSpaceEmbedding": ({"target_space_id": 3}, X, 1),
    "TokenAndPositionEmbedding": (
        {"vocab_size": V, "hidden_size": D, "pos": "emb", "max_length": T, "dropout": 0.1},
        (B, T),
        2,
    ),
}
QUICK = {"CrossAttention", "LayerNorm", "TokenAndPositionEmbedding"}
EACH = [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in CHECKED]


def dtypes(shapes):
    if isinstance(shapes, dict):
        return dict.fromkeys(shapes, "float32")
    return "float32" if len(shapes) == 3 else "int32"


def test_every_public_layer_is_checked():
    assert set(CHECKED) == set(layers.__all__)


@pytest.mark.parametrize("name", EACH)
def test_keras_takes_it_for_one_of_its_own(name):
    arguments, shapes, variables = CHECKED[name]
    TestCase().run_layer_test(
        getattr(layers, name),
        init_kwargs=arguments,
        input_shape=shapes,
        input_dtype=dtypes(shapes),
        expected_num_trainable_weights=variables,
        expected_num_non_trainable_weights=0,
        expected_num_losses=0,
        supports_masking=True,
        run_training_check=not isinstance(shapes, dict),  # which knows one input only
    )


@pytest.mark.parametrize("name", CHECKED)
def test_it_is_saved_and_loaded_in_a_functional_model(name, tmp_path):
    arguments, shapes, _ = CHECKED[name]
    shapes = list(shapes.values()) if isinstance(shapes, dict) else [shapes]
    symbols = [
        keras.Input((None, *shape[2:]), dtype=dtypes(shape), name=f"input_{i}")
        for i, shape in enumerate(shapes)
    ]
    outputs = getattr(layers, name)(**arguments)(*symbols)
    model = keras.Model(symbols, keras.tree.flatten(outputs))
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    assert "?" not in "".join(lines)
    draw = np.random.default_rng(0)
    data = [draw.uniform(0, 3, shape).astype(dtypes(shape)) for shape in shapes]
    expected = model(data)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for found, wanted in zip(loaded(data), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="this is it")
def test_on_jax():
    here = pathlib.Path(__file__)
    files = [here, here.with_name("test_blocks.py"), here.with_name("test_examples.py")]
    which = ["-m", "not slow and not browser", *files]
    forks.said_by("-m", "pytest", "-n", "0", "-q", "-x", *which, KERAS_BACKEND="jax")
