import keras
import numpy as np
import pytest

from t2t_repro.studies.paper import layer_costs, published


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
    assert costs[0].gflops == pytest.approx(8 * 4 * 1e6 / 1e6)
