"""Each norm, and the gated residual, against what tensor2tensor computed."""

import numpy as np
import pytest
from keras import ops

from t2t_repro.layers.norms import LayerNorm
from t2t_repro.layers.prepostprocess import PrePostProcess


@pytest.fixture(scope="module")
def golden(golden_path):
    with np.load(golden_path / "norms.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
@pytest.mark.parametrize("name", ["layer", "group", "batch", "noam", "l2"])
def test_every_norm_of_tensor2tensor(golden, name, epsilon):
    process = PrePostProcess("n", name, epsilon)
    process.build(golden["x"].shape)
    if process.norms[0].weights:
        process.norms[0].scale.assign(golden["scale"])
        process.norms[0].bias.assign(golden["bias"])
    for training in (False, True):
        y = process(golden["x"], training=training)
        np.testing.assert_allclose(y, golden[f"{name}:{epsilon}"], atol=2e-6)


def test_a_gate_begins_closed_and_is_learned():
    x, previous = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")
    process = PrePostProcess("dz")
    np.testing.assert_array_equal(process(x, previous), previous)
    process.gates[0].gamma.assign([0.25])
    np.testing.assert_allclose(process(x, previous), previous + 0.25 * x, rtol=1e-6)


def test_layer_norm_is_float32_under_bfloat16():
    x = np.full((1, 1, 64), 1000.0, "float32")
    x[0, 0, 0] = 1001.0  # bfloat16 cannot tell these apart
    exact = np.asarray(LayerNorm()(x))
    half = LayerNorm(dtype="mixed_bfloat16")
    half.build(x.shape)
    centred = np.asarray(ops.cast(half.call(ops.convert_to_tensor(x)), "float32"))
    np.testing.assert_allclose(centred, exact, rtol=1e-2, atol=1e-2)
