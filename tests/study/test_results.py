"""What the runs of a study ended with, on results made by hand."""

import pytest

from t2t_repro.study import results
from t2t_repro.study.results import Results, compare, half_interval
from tests.study.studies import POST, PRE, cell_of, result_of, study_of

STUDY = study_of()
CELL = cell_of(STUDY, PRE)


def test_the_interval_is_students():
    """Of 1, 2, 3, 4: 2.5 +- 3.182 x 1.29099 / 2, as in any table of t."""
    assert half_interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx(2.054, abs=1e-3)
    assert half_interval([7.0]) is half_interval([]) is None
    assert half_interval(range(results.MOST_SEEDS)) > 0


@pytest.mark.parametrize(
    "changes, status",
    [
        ({}, "learned"),
        ({"stopped_at": 17, "dev_loss": None}, "not finite"),
        ({"train": [(1, 7.0), (2, 7.5)]}, "diverged"),
        ({"train": [(1, 6.0), (2, 99.0), (3, 5.0)]}, "learned"),
        ({"train": [(step, 30.0 if step == 19 else 2.7) for step in range(1, 21)]}, "diverged"),
        ({"dev_loss": 5.0}, "at word frequencies"),
        ({"dev_loss": 4.99}, "learned"),
        ({"dev_loss": float("nan")}, "at word frequencies"),
    ],
)
def test_how_a_run_ended(changes, status):
    result = result_of(CELL, **changes)
    assert result.status == status
    assert result.ended == (status in ("learned", "at word frequencies"))


def side(name, losses, measure="dev_loss"):
    return [
        result_of(cell_of(STUDY, name, seed=seed), **{measure: loss})
        for seed, loss in enumerate(losses)
    ]


@pytest.mark.parametrize(
    "first, second, better",
    [
        ((3.0, 3.1, 3.2), (3.3, 3.42, 3.49), 0),
        ((3.3, 3.42, 3.49), (3.0, 3.1, 3.2), 1),
        ((3.0, 3.1, 3.2), (3.3, 3.0, 3.6), None),
        ((3.0,), (9.0,), None),
    ],
)
def test_better_is_what_the_interval_over_the_seeds_says(first, second, better):
    found = compare(side(POST, first), side(PRE, second), "dev_loss")
    assert found.better == better and found.seeds == len(first)
    by_bleu = compare(side(POST, first, "bleu"), side(PRE, second, "bleu"), "bleu")
    assert by_bleu.better == (None if better is None else 1 - better)


def test_seeds_that_both_have_are_compared_and_of_none_there_is_no_difference():
    found = compare(side(POST, (3.0, 3.5, 9.0)), side(PRE, (3.2, 3.3)), "dev_loss")
    assert (found.seeds, found.mean) == (2, pytest.approx(0, abs=1e-9))
    assert found.half == pytest.approx(12.706 * 0.2)
    assert compare(side(POST, ()), side(PRE, (3.2,)), "dev_loss") is None
    assert compare(side(POST, (3.0,)), side(PRE, (3.2,)), "bleu") is None


def test_bleu_is_tested_against_the_first_by_seed():
    lines = [f"the cat number {i} sat on the mat of {i % 7} men" for i in range(30)]
    other = [line.replace("sat on", "lay by") for line in lines]
    post = result_of(cell_of(STUDY, POST), references=lines, hypotheses=lines)
    pre = result_of(CELL, references=lines, hypotheses=other)
    found = Results(STUDY, [post, pre])
    (p_value,), signature = found.p_values([pre], POST)
    assert p_value < 0.05 and "tok:13a" in signature
    assert found.p_values([post], POST) == Results(STUDY, [pre]).p_values([pre], POST) == ([], "")
