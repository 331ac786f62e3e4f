"""Four scores as their formulas say, and sentences that follow the numbers."""

import math

import numpy as np
import pytest

from t2t_repro.reports import experiment_attention_scores as experiment


@pytest.fixture(scope="module")
def result():
    return experiment.run()


def with_gradients(result, of):
    """The rows with other gradients: {score: gradient} at every width."""
    return [row._replace(gradient=of[row.score]) for row in result.rows]


@pytest.mark.parametrize("score", experiment.SCORES)
def test_a_score_is_its_formula(score):
    draw = np.random.default_rng(5)
    q, k = draw.standard_normal((2, 7)), draw.standard_normal((3, 7))
    got = experiment.SCORES[score](q, k, np.random.default_rng(8))
    again = np.random.default_rng(8)
    w, u, v = (experiment.glorot(again, 7, n) for n in (7, 7, 1))
    formula = {
        "dot product": lambda q, k: q @ k,
        "scaled dot product": lambda q, k: q @ k / math.sqrt(7),
        "multiplicative": lambda q, k: q @ w @ k,
        "additive": lambda q, k: (np.tanh(q @ w + k @ u) @ v)[0],
    }[score]
    np.testing.assert_allclose(got, [[formula(a, b) for b in k] for a in q], rtol=1e-5)


def test_kernels_are_drawn_by_glorots_rule():
    kernel = experiment.glorot(np.random.default_rng(2), 200, 300)
    assert kernel.shape == (200, 300)
    assert np.var(kernel) == pytest.approx(2 / 500, rel=0.02)
    assert np.abs(kernel).max() <= math.sqrt(6 / 500)


def test_the_gradient_is_the_trace_of_softmaxs_jacobian():
    logits = np.array([0.3, -1.2, 2.0, 0.1])
    p, step = experiment.softmax(logits), 1e-6
    moved = [experiment.softmax(logits + step * np.eye(4)[i])[i] for i in range(4)]
    assert np.sum(p * (1 - p)) == pytest.approx(sum((moved - p) / step), rel=1e-4)


def test_the_paper_is_right(result):
    assert len(result.rows) == len(experiment.WIDTHS) * len(experiment.SCORES)
    by = {(row.score, row.width): row for row in result.rows}
    assert by["dot product", 512].variance == pytest.approx(512, rel=0.1)
    assert by["scaled dot product", 8].variance == pytest.approx(1, rel=0.1)
    assert by["dot product", 512].gradient < 0.2 < 0.9 < by["scaled dot product", 512].gradient
    assert by["dot product", 512].entropy < by["dot product", 8].entropy < math.log(64)
    first, second = result.sentences
    assert first.startswith("As footnote 4 says: ") and "1.00 for dot product" in first
    assert second.startswith("So, as the paper suspects: ")
    assert second.endswith("for dot product and multiplicative.")


def test_another_exponent_is_not_the_footnotes(result):
    rows = [row._replace(variance=row.width**1.5) for row in result.rows]
    assert experiment.exponent(rows, "additive") == pytest.approx(1.5)
    assert experiment.sentences(rows)[0].startswith("Not as footnote 4 says: ")


def test_gradients_that_are_alike_starve_nobody(result):
    rows = with_gradients(result, dict.fromkeys(experiment.SCORES, 0.7))
    second = experiment.sentences(rows)[1]
    assert second.startswith("Not as the paper suspects: ")
    assert second.endswith("for none of them.")
