"""What the cells of a comparison ended with, on results made by hand."""

import dataclasses
import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.study import results
from t2t_repro.study.results import Results, compare
from t2t_repro.study.variants import Cell
from tests.study.studies import POST, PRE, plan_of, result_of

CELL = Cell(3, 700, PRE, 0)


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
        result_of(Cell(3, 700, name, seed), **{measure: loss}) for seed, loss in enumerate(losses)
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
    assert (found.seeds, found.first, found.second) == (2, 3.25, 3.25)
    assert found.half == pytest.approx(12.706 * 0.2)
    assert compare(side(POST, ()), side(PRE, (3.2,)), "dev_loss") is None
    assert compare(side(POST, (3.0,)), side(PRE, (3.2,)), "bleu") is None


def test_bleu_is_tested_against_the_first_by_seed():
    plan = plan_of(warmups=(700,), seeds=1)
    lines = [f"the cat number {i} sat on the mat of {i % 7} men" for i in range(30)]
    worse = [line.replace("sat on", "lay by") for line in lines]
    cells = {
        cell: result_of(cell, references=lines, hypotheses=lines if cell.variant == POST else worse)
        for cell in plan.cells()
    }
    (p_value,), signature = Results(plan, cells).p_values()[0].values(), "tok:13a"
    assert p_value < 0.05 and signature in Results(plan, cells).p_values()[1]
    assert Results(plan, {CELL: cells[CELL]}).p_values() == ({}, "")


def test_a_result_of_other_hparams_is_none_of_this_grid(tmp_path):
    """As when a set's definition has changed: the flags are the same, and the cell is finished."""
    plan = plan_of()
    run = results.run_of(tmp_path, plan, CELL)
    run.path.mkdir(parents=True)
    run.append_metrics({"kind": "train", "step": 9, "loss": 4.0, "tokens_per_second": 7.0})
    run.append_metrics({"kind": "eval", "step": 9, "loss": 3.5})
    values = dataclasses.asdict(result_of(CELL, gradients={0: {"embedding": 2.0}}))
    for name in ("train", "dev", "tokens_per_second", "bleu"):
        del values[name]
    values["hparams"] = dataclasses.asdict(plan.hparams_of(CELL))
    file = run.path / results.RESULT_FILE
    file.write_text(json.dumps(values))
    (result,) = results.load(plan, tmp_path).by_cell.values()
    assert (result.train, result.dev, result.tokens_per_second) == ([(9, 4.0)], [(9, 3.5)], 7.0)
    assert result.gradients == {0: {"embedding": 2.0}} and result.cell == CELL
    values["hparams"]["relu_dropout"] = 0.25
    file.write_text(json.dumps(values))
    with pytest.raises(UserError, match="relu_dropout"):
        results.load(plan, tmp_path)
