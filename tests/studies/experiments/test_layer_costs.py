import keras
import numpy as np
import pytest

from t2t_repro.paper import published
from t2t_repro.studies.paper import layer_costs


def test_attention_to_all_and_in_blocks():
    x = np.random.default_rng(3).standard_normal((2, 6, 5)).astype("float32")

    def attend(x):
        scores = np.exp(x @ np.swapaxes(x, 1, 2) * 5**-0.5)
        return scores / scores.sum(-1, keepdims=True) @ x

    to_all = keras.ops.convert_to_numpy(layer_costs.DotProducts()(x))
    np.testing.assert_allclose(to_all, attend(x), rtol=1e-5, atol=1e-6)
    in_blocks = keras.ops.convert_to_numpy(layer_costs.DotProducts(3)(x))
    blocks = [attend(x[:, :3]), attend(x[:, 3:])]
    np.testing.assert_allclose(in_blocks, np.concatenate(blocks, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", layer_costs.KINDS)
def test_each_kind_is_measured(name):
    make, flop = layer_costs.KINDS[name]
    assert layer_costs.milliseconds(make(16), n=32, d=16, repetitions=1) > 0
    assert flop(64, 16) > flop(32, 16) > flop(32, 8) > 0


@pytest.mark.parametrize("row", published.TABLE1, ids=lambda row: row.name)
def test_the_operations_grow_by_the_formulas_exponents(row):
    _, flop = layer_costs.KINDS[row.name]
    n, d = row.exponents
    assert flop(640, 48) == 2**n * flop(320, 48)
    assert flop(320, 96) == 2**d * flop(320, 48)


@pytest.mark.parametrize(
    "name, operations",
    [
        ("Convolutional (separable)", 2 * 5 * 7 * (layer_costs.KERNEL + 7)),
        ("Convolutional (dilated)", 2 * 5 * 7 * 7 * layer_costs.KERNEL),
        ("Convolutional (separable, k = n)", 2 * 5 * 7 * (5 + 7)),
    ],
)
def test_the_operations_of_the_convolutions_of_the_text(name, operations):
    assert name in published.SECTION4
    _, flop = layer_costs.KINDS[name]
    assert flop(5, 7) == operations


def test_the_kernel_of_all_is_as_wide_as_the_sentence():
    layer = layer_costs.SeparableOfAll(5)
    assert layer(np.zeros((2, 9, 3), "float32")).shape == (2, 9, 5)
    depthwise, pointwise, _ = layer.get_weights()
    assert depthwise.shape == (9, 3, 1) and pointwise.shape == (1, 3, 5)


def test_each_point_is_measured_once(monkeypatch):
    measured = []

    def by_formula(layer, n, d, repetitions):
        measured.append((n, d, repetitions))
        return 1e-6 * n**2 * d

    monkeypatch.setattr(layer_costs, "milliseconds", by_formula)
    sizes = layer_costs.Sizes((200, 400), (30, 60, 90), length=400, width=60, repetitions=3)
    costs = layer_costs.measure(layer_costs.KINDS, sizes, "layers")
    assert [cost.name for cost in costs] == list(layer_costs.KINDS)
    assert all(cost.exponents == (pytest.approx(2), pytest.approx(1)) for cost in costs)
    points = [(200, 60), (400, 30), (400, 60), (400, 90)]
    assert measured == [(*point, 3) for point in points] * len(costs)
    assert costs[0].operations == (pytest.approx(2), pytest.approx(1))
    separable = costs[list(layer_costs.KINDS).index("Convolutional (separable, k = n)")]
    n = np.log2((400 + 60) / (200 + 60)) + 1  # of 2 n d (n + d)
    assert separable.operations[0] == pytest.approx(n) and 1 < separable.operations[1] < 2
    assert costs[0].gflops == pytest.approx(8 * 4 * 1e6 / 1e6)
