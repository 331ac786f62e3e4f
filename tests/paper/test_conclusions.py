"""Intervals over seeds, and what they say of a conclusion of the paper's."""

import pytest

from t2t_repro.paper import published
from t2t_repro.paper.scaled import (
    CONCLUSIONS,
    CONFIRMED,
    NOT_CONFIRMED,
    NOT_TESTABLE,
    Conclusion,
    Result,
    judge,
)

BETTER, EQUAL = Conclusion("a over b", "a", "b"), Conclusion("a as b", "a", "b", equal=True)


def runs(**bleus):
    return {row: {s: Result(b, 9 - b) for s, b in enumerate(of)} for row, of in bleus.items()}


@pytest.mark.parametrize(
    "conclusion, results, word, seeds",
    [
        (BETTER, runs(a=[5.0, 5.5, 5.2], b=[4.0, 4.4, 4.3]), CONFIRMED, 3),
        (BETTER, runs(a=[5.0, 5.5, 5.2], b=[4.0, 6.4, 4.3]), NOT_CONFIRMED, 3),
        (BETTER, runs(a=[4.0, 4.4, 4.3], b=[5.0, 5.5, 5.2]), NOT_CONFIRMED, 3),
        (BETTER, runs(a=[5.0, 5.5], b=[4.0]), NOT_TESTABLE, 1),
        (BETTER, runs(a=[5.0]), NOT_TESTABLE, 0),
        (EQUAL, runs(a=[5.0, 5.1, 5.2], b=[5.02, 5.05, 5.2]), CONFIRMED, 3),
        (EQUAL, runs(a=[7.0, 7.1, 7.2], b=[5.02, 5.05, 5.2]), NOT_CONFIRMED, 3),
        (EQUAL, runs(a=[3.0, 5.0, 9.0], b=[5.0, 5.0, 5.0]), NOT_TESTABLE, 3),
        (BETTER._replace(by="perplexity"), runs(a=[5.0, 5.5], b=[4.0, 4.45]), CONFIRMED, 2),
    ],
)
def test_what_runs_say(conclusion, results, word, seeds):
    verdict = judge(conclusion, results, 99.0)
    assert (verdict.word, verdict.seeds) == (word, seeds)


@pytest.mark.parametrize(
    "gains, then, word",
    [
        ([0.8, 1.2, 0.9], 0.4, CONFIRMED),
        ([-0.6, 1.5, 0.9], 0.4, NOT_TESTABLE),  # from -2.1 to 3.3
        ([-0.6, 1.5, 0.9], 3.5, NOT_CONFIRMED),  # so much it is not
        ([-0.6, -0.8, -0.7], 0.4, NOT_CONFIRMED),  # the other way round
    ],
)
def test_an_interval_with_both_zero_and_the_papers_difference_tells_nothing(gains, then, word):
    results = runs(a=[5 + gain for gain in gains], b=[5.0] * len(gains))
    assert judge(BETTER, results, then).word == word


def test_every_conclusion_is_the_papers():
    printed = {row.name: row for row in published.TABLE3}
    for each in CONCLUSIONS:
        better, worse = (getattr(printed[row], each.by) for row in (each.better, each.worse))
        if each.equal:
            assert abs(better - worse) < 0.11
        else:
            assert better < worse if each.by == "perplexity" else better > worse
