"""Which is better, on results made by hand; and when it is an early look."""

import pytest

from t2t_repro.study import verdict
from t2t_repro.study.results import Results
from tests.study.studies import POST, PRE, cell_of, result_of, study_of


def found(study, but=(), **changes):
    """Post-norm ends at 2.1 after 700 steps of warm-up and 2.0 after 2000, pre-norm at 2.2, 2.3."""
    losses = {(POST, 700): 2.1, (POST, 2000): 2.0, (PRE, 700): 2.2, (PRE, 2000): 2.3}
    bleus = {POST: 40.0, PRE: 39.0}
    cells = [
        result_of(
            cell,
            losses[cell.variant.name, cell.variant.warmup] + cell.seed / 100,
            **{"bleu": bleus[cell.variant.name] + cell.seed} | changes,
        )
        for cell in study.cells()
    ]
    of_but = {(r.variant.name, r.variant.warmup, r.seed): r for r in but}
    keys = [(r.variant.name, r.variant.warmup, r.seed) for r in cells]
    return Results(study, [of_but.get(key, r) for key, r in zip(keys, cells, strict=True)])


def first(results):
    """The row of both with their best warm-ups."""
    return verdict.table(results).as_dict()["rows"][0]


def test_the_sentence_names_the_steps_and_what_is_ahead():
    whole, early = found(study_of()), found(study_of(), fall=0.05)
    for results, first in ((whole, "A whole training"), (early, "An early look")):
        (said,) = verdict.sentences(results, verdict.table(results))
        assert said.startswith(first) and "9,000 steps with 3 layers" in said
        assert "post-norm is ahead by dev loss and post-norm" in said


def doubts(results):
    said = first(results)["early look, because"]
    return said.count(";") + bool(said)


def test_each_stands_with_the_warm_up_that_suits_it():
    rows = verdict.table(found(study_of())).as_dict()["rows"]
    assert rows[0] == {
        "depth": 3,
        "warm-up": "best: 2,000 and 700",
        "of": "post-norm less pre-norm",
        "dev loss": pytest.approx(-0.2),
        "±": pytest.approx(0, abs=1e-9),
        "BLEU": pytest.approx(1.0),
        "± ": 0.0,
        "better": "post-norm by dev loss, post-norm by BLEU",
        "early look, because": "",
    }
    assert [row["warm-up"] for row in rows[1:]] == ["700", "2,000"]
    assert [row["dev loss"] for row in rows[1:]] == pytest.approx([-0.1, -0.3])


@pytest.mark.parametrize(
    "changes, number",
    [
        ({}, 0),
        ({"fall": 0.05}, 2),
        ({"unigram_loss": 1.9}, 2),  # no better than word frequencies
        ({"dev": [(9000, 2.0)]}, 2),  # evaluated too seldom
        ({"dev": [(3600, 3.0), (7200, 2.0), (9000, 2.0)]}, 2),  # 2.125 at the last quarter's begin
        ({"stopped_at": 2, "dev_loss": None}, 3),
    ],
)
def test_where_trainings_were_not_whole_it_is_an_early_look(changes, number):
    study = study_of()
    cells = [result_of(cell, **{"loss": 2.0} | changes) for cell in study.cells()]
    assert doubts(Results(study, cells)) == number


LINEAR = "*linear_decay,learning_rate_decay_steps=4000"


@pytest.mark.parametrize(
    "schedule, unigram, number",  # of 3.0, hardly half is learned
    [(LINEAR, 5.0, 0), (LINEAR, 3.0, 2), ("", 5.0, 2), ("*rsqrt_decay", 5.0, 2)],
)
def test_a_rate_that_falls_to_nothing_ends_a_training_that_learned(schedule, unigram, number):
    rate = f"learning_rate_schedule=constant*linear_warmup{schedule}"
    study = study_of(warmups=(700,), hparams=rate)
    cells = [result_of(c, 2.0, fall=0.05, unigram_loss=unigram) for c in study.cells()]
    assert doubts(Results(study, cells)) == number


@pytest.mark.parametrize("seeds, warmups, number", [(3, "700 and 700", 0), (1, "2,000 and 700", 2)])
def test_one_that_diverges_is_judged_by_another_warm_up_only_if_it_always_does(
    seeds, warmups, number
):
    study = study_of()
    of = [cell_of(study, POST, 2000, seed) for seed in range(seeds)]
    results = found(study, [result_of(cell, 2.0, stopped_at=3, dev_loss=None) for cell in of])
    assert first(results)["warm-up"] == f"best: {warmups}" and doubts(results) == number
