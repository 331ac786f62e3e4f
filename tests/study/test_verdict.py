"""Which is better, on results made by hand; and when it is an early look."""

import dataclasses

import pytest

from t2t_repro.study import verdict
from t2t_repro.study.results import Results
from t2t_repro.study.variants import Cell
from tests.study.studies import POST, PRE, plan_of, result_of


def found(plan, but=None, **changes):
    """Post-norm ends at 2.1 after 700 steps of warm-up and 2.0 after 2000, pre-norm at 2.2, 2.3."""
    losses = {(POST, 700): 2.1, (POST, 2000): 2.0, (PRE, 700): 2.2, (PRE, 2000): 2.3}
    bleus = {POST: 40.0, PRE: 39.0}
    cells = {
        cell: result_of(
            cell,
            losses[cell.variant, cell.warmup] + cell.seed / 100,
            **{"bleu": bleus[cell.variant] + cell.seed} | changes,
        )
        for cell in plan.cells()
    }
    return Results(plan, cells | (but or {}))


def test_each_stands_with_the_warm_up_that_suits_it():
    (answer,) = verdict.verdicts(found(plan_of()))
    assert (answer.names, answer.warmups, answer.doubts) == ((POST, PRE), (2000, 700), ())
    assert answer.loss.mean == pytest.approx(-0.2) and answer.bleu.mean == pytest.approx(1.0)
    assert answer.loss.better == answer.bleu.better == 0
    said = answer.sentence(9000)
    assert said.startswith("After a whole training, 9,000 steps at depth 3, 3 seeds: post-norm is")
    assert "dev loss 2.010 and 2.210 (difference -0.200" in said


def test_one_seed_that_disagrees_decides_nothing():
    cell = Cell(3, 2000, POST, 1)
    (answer,) = verdict.verdicts(found(plan_of(), {cell: result_of(cell, 2.25, bleu=41.0)}))
    assert answer.loss.better is None and answer.bleu.better == 0
    both = {Cell(3, 2000, POST, 1): result_of(cell, 2.25, bleu=30.0)}
    (answer,) = verdict.verdicts(found(plan_of(), both))
    assert "no difference is shown" in answer.sentence(9000)


@pytest.mark.parametrize(
    "changes, doubts",
    [
        ({}, 0),
        ({"fall": 0.05}, 2),
        ({"unigram_loss": 1.9}, 2),  # no better than word frequencies
        ({"dev": [(9000, 2.0)]}, 2),  # evaluated too seldom
        ({"dev": [(3600, 3.0), (7200, 2.0), (9000, 2.0)]}, 2),  # 2.125 at the last quarter's begin
        ({"stopped_at": 2, "dev_loss": None}, 2),
    ],
)
def test_where_trainings_were_not_whole_it_is_an_early_look(changes, doubts):
    plan = plan_of()
    (answer,) = verdict.verdicts(
        Results(plan, {c: result_of(c, **{"loss": 2.0} | changes) for c in plan.cells()})
    )
    assert len(answer.doubts) == doubts
    said = answer.sentence(9000)
    assert said.startswith("Early look, 9,000 steps" if doubts else "After a whole training")


def test_too_few_seeds_and_no_results_are_an_early_look():
    (answer,) = verdict.verdicts(found(plan_of(seeds=2)))
    assert len(answer.doubts) == 1 and answer.loss.seeds == 2
    apart = {c: r for c, r in found(plan_of()).by_cell.items() if c.seed == (c.variant == PRE)}
    for cells in (apart, {}):
        (answer,) = verdict.verdicts(Results(plan_of(), cells))
        assert answer.loss is answer.bleu is None
        assert answer.sentence(9000).startswith("Early look") or not answer.doubts


@pytest.mark.parametrize(
    ("schedule", "unigram", "doubts"),
    [
        ("*linear_decay,learning_rate_decay_steps=4000", 5.0, 0),
        ("*linear_decay,learning_rate_decay_steps=4000", 3.0, 2),  # of which hardly half is learned
        ("", 5.0, 2),
        ("*rsqrt_decay", 5.0, 2),
    ],
)
def test_a_rate_that_falls_to_nothing_ends_a_training_that_learned(schedule, unigram, doubts):
    rate = f"learning_rate_schedule=constant*linear_warmup{schedule}"
    plan = plan_of(warmups=(700,), hparams=rate)
    cells = {c: result_of(c, 2.0, fall=0.05, unigram_loss=unigram) for c in plan.cells()}
    (answer,) = verdict.verdicts(Results(plan, cells))
    assert len(answer.doubts) == doubts


@pytest.mark.parametrize(("seeds", "warmups", "doubts"), [(3, (700, 700), 0), (1, (2000, 700), 2)])
def test_one_that_diverges_with_its_best_warm_up_is_judged_by_another_only_if_it_always_does(
    seeds, warmups, doubts
):
    cells = [Cell(3, 2000, POST, seed) for seed in range(seeds)]
    but = {c: result_of(c, 2.0, stopped_at=3, dev_loss=None) for c in cells}
    (answer,) = verdict.verdicts(found(plan_of(), but))
    assert answer.warmups == warmups and len(answer.doubts) == doubts


def test_settings_are_compared_each_by_itself():
    rows = verdict.by_setting(found(plan_of()))
    assert [row[:3] for row in rows] == [
        ("depth 3, warm-up 700", POST, PRE),
        ("depth 3, warm-up 2,000", POST, PRE),
    ]
    assert [row[3].mean for row in rows] == pytest.approx([-0.1, -0.3])
    some = dataclasses.replace(found(plan_of()), by_cell={})
    assert verdict.by_setting(some) == []
