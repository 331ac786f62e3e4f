"""What scores cost is measured in turns, and the sentences follow the numbers."""

import pytest

from t2t_repro.studies.experiments import score_costs as experiment
from t2t_repro.studies.experiments.score_costs import ADDITIVE, SCORES, Row


def rows_of(slower=3.0, larger=8.0) -> list[Row]:
    """Rows of time that grows with the length, and memory with its square; additive's are more."""
    return [
        Row(
            name,
            n,
            n / 10 * (slower if name == ADDITIVE else 1),
            n**2 / 1000 * (larger if name == ADDITIVE else 1),
        )
        for n in experiment.LENGTHS
        for name in SCORES
    ]


def test_sentences_follow_the_numbers():
    first, second = experiment.sentences(rows_of())
    assert first == (
        "As section 3.2.1 says: at length 512 additive attention takes 3.0 times as long as scaled "
        "dot products (154 against 51 ms), and 8.0 times the memory (2097 against 262 MB)."
    )
    assert second.startswith("Between the two greatest lengths memory grows as n^2.0 for dot prod")
    for other in ({"slower": 1.1}, {"larger": 1.9}):
        first, _ = experiment.sentences(rows_of(**other))
        assert first.startswith("The numbers do not support section 3.2.1: at length 512")


def test_the_picture_has_time_and_memory_of_each_score():
    left, right = experiment.picture(rows_of()).axes
    assert len(left.lines) == len(right.lines) == len(SCORES)


@pytest.mark.slow
def test_every_score_is_measured(monkeypatch):
    monkeypatch.setattr(experiment, "TURNS", 2)
    taken = experiment.milliseconds(24)
    assert list(taken) == list(SCORES) and min(taken.values()) > 0
    assert experiment.megabytes(ADDITIVE, 24) > 0
