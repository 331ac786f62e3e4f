"""Sentences that follow the numbers; tests/layers/test_attention_score.py has the scores."""

import math

import numpy as np
import pytest

from t2t_repro.studies.experiments import attention_scores as experiment


@pytest.fixture(scope="module")
def result():
    return experiment.run()


def with_gradients(result, of):
    """The rows with other gradients: {score: gradient} at every width."""
    return [row._replace(gradient=of[row.score]) for row in result.rows]


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
    assert experiment.growth(rows, "additive") == pytest.approx(1.5)
    assert experiment.sentences(rows)[0].startswith("Not as footnote 4 says: ")


def test_gradients_that_are_alike_starve_nobody(result):
    rows = with_gradients(result, dict.fromkeys(experiment.SCORES, 0.7))
    second = experiment.sentences(rows)[1]
    assert second.startswith("Not as the paper suspects: ")
    assert second.endswith("for none of them.")
