"""Which is better after a whole training, on results made by hand; and when nobody can say."""

import dataclasses

import numpy as np
import pytest

from t2t_repro.studies.compare import verdict
from t2t_repro.studies.compare.cell_result import CellResult
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.results import Results
from t2t_repro.studies.compare.variants import of_sequences

POST, PRE = "none/dan", "n/da"
SENTENCES = 40
TOKENS = np.random.default_rng(1).integers(3, 20, SENTENCES).tolist()
REFERENCES = [f"the cat number {i} sat on the mat of {i % 7} men" for i in range(SENTENCES)]


def plan_of(**changes) -> Grid:
    values = {"depths": (3,), "warmups": (700, 2000), "seeds": 3, "train_steps": 9000}
    return Grid(
        problem="algorithmic_reverse_binary40_test",
        data_dir="/data",
        variants=of_sequences("transformer_base_v1", f"{POST},{PRE}"),
        **values | changes,
    )


def result_of(cell: Cell, loss: float, wrong: int = 0, fall: float = 0.0) -> CellResult:
    """A run that ends with this loss; of the translations the first `wrong` have a fault."""
    noise = np.random.default_rng(cell.seed).normal(0, 0.02, SENTENCES)
    return CellResult(
        cell=cell,
        stopped_at=None,
        train=[(9000, loss)],
        dev=[(4500, loss + 1), (6750, loss / (1 - fall)), (9000, loss)],
        initial_loss=8.0,
        unigram_loss=6.0,
        sentences={
            "loss": [(loss + e) * n for e, n in zip(noise, TOKENS, strict=True)],
            "tokens": TOKENS,
            "right": TOKENS,
        },
        hypotheses=[
            line.replace("sat on", "lay by") if i < wrong else line
            for i, line in enumerate(REFERENCES)
        ],
        references=REFERENCES,
        tokens_per_second=500.0,
        parameters=99,
        fingerprint=f"seed {cell.seed}",
        gradients={},
        activations={},
    )


def found(plan: Grid, **changes):
    """Post-norm ends at 2.1 after 700 steps of warm-up and 2.0 after 2000, pre-norm at 2.2, 2.3."""
    losses = {(POST, 700): 2.1, (POST, 2000): 2.0, (PRE, 700): 2.2, (PRE, 2000): 2.3}
    wrong = {POST: 5, PRE: 15}
    cells = {
        cell: result_of(
            cell, losses[cell.variant, cell.warmup] + cell.seed / 100, wrong[cell.variant]
        )
        for cell in plan.cells()
    }
    return Results(plan, cells | changes.get("but", {}))


def test_each_stands_with_the_warm_up_that_suits_it():
    (answer,) = verdict.verdicts(found(plan_of()))
    assert (answer.names, answer.warmups, answer.seeds) == ((POST, PRE), (2000, 700), 3)
    assert answer.doubts == ()
    assert answer.loss.difference == pytest.approx(-0.2, abs=1e-6)
    assert answer.loss.low <= answer.loss.difference <= answer.loss.high < 0
    assert answer.bleu.first > answer.bleu.second and answer.bleu.low > 0
    assert answer.loss.better == answer.bleu.better == 0
    said = answer.sentence(9000)
    assert said.startswith(
        "After a whole training of 9,000 steps with 3 seeds, of post-norm (none/dan, warm-up "
        "2,000) and pre-norm (n/da, warm-up 700) at depth 3: post-norm (none/dan) is better by dev "
        "loss and BLEU; dev loss 2.0"
    )
    assert said.endswith("that all 3 seeds agree happens by chance in 1 of 4.")
    rows = verdict.table([answer]).rows
    assert [row[:5] for row in rows] == [
        (3, "none/dan, 2,000", "n/da, 700", 3, "dev loss"),
        (3, "none/dan, 2,000", "n/da, 700", 3, "BLEU"),
    ]


def test_the_interval_is_wider_than_that_of_the_sentences_alone():
    plan = plan_of(warmups=(700,))
    losses = {POST: (2.0, 2.3, 2.6), PRE: (2.2, 2.2, 2.2)}
    cells = {c: result_of(c, losses[c.variant][c.seed]) for c in plan.cells()}
    (answer,) = verdict.verdicts(Results(plan, cells))
    assert answer.loss.low < -0.15 and answer.loss.high > 0.35
    assert answer.loss.better is None and answer.bleu.better is None
    assert "neither is shown to be better" in answer.sentence(9000)


def test_one_seed_that_disagrees_decides_nothing():
    cell = Cell(3, 2000, POST, 1)
    (answer,) = verdict.verdicts(found(plan_of(), but={cell: result_of(cell, 2.25, 5)}))
    assert answer.loss.better is None and answer.bleu.better == 0
    assert "post-norm (none/dan) is better by BLEU, dev loss decides nothing" in answer.sentence(
        9000
    )


def test_what_makes_it_no_answer_is_said():
    plan = plan_of(seeds=2, warmups=(700,))
    cells = {c: result_of(c, 2.0 if c.variant == POST else 2.2, fall=0.05) for c in plan.cells()}
    stopped = Cell(3, 700, PRE, 1)
    cells[stopped] = dataclasses.replace(cells[stopped], stopped_at=17, sentences=None)
    (answer,) = verdict.verdicts(Results(plan, cells))
    assert answer.sentence(9000).startswith(
        "Which of post-norm (none/dan, warm-up 700) and pre-norm (n/da, warm-up 700) at depth 3 is "
        "better after a whole training cannot be said here: in the last quarter of the steps the "
        "dev loss of post-norm (none/dan) "
        "still fell by 5.0%, so that these are no whole trainings (with a learning rate that falls "
        "to 0 they would be); 1 of 2 trainings of pre-norm (n/da) diverged; "
    )
    assert "1 seed of each, where 3 are needed. So far: dev loss" in answer.sentence(9000)
    apart = {c: r for c, r in found(plan_of()).by_cell.items() if c.seed == (c.variant == PRE)}
    (answer,) = verdict.verdicts(Results(plan_of(), apart))
    assert answer.doubts[-1] == "0 seeds of each, where 3 are needed" and answer.loss is None
    assert "cannot be said here" in answer.sentence(9000)
    poor = {
        c: dataclasses.replace(r, unigram_loss=1.9) for c, r in found(plan_of()).by_cell.items()
    }
    (answer,) = verdict.verdicts(Results(plan_of(), poor))
    assert answer.doubts[0] == "3 of post-norm (none/dan) ended no better than word frequencies"
    cells = {c: dataclasses.replace(r, dev=r.dev[-1:]) for c, r in found(plan_of()).by_cell.items()}
    (answer,) = verdict.verdicts(Results(plan_of(), cells))
    assert "evaluated too seldom" in answer.doubts[0]
    few = [(3600, 3.0), (7200, 2.0), (9000, 2.0)]  # at the last quarter's begin 2.125
    cells = {c: dataclasses.replace(r, dev=few) for c, r in cells.items()}
    (answer,) = verdict.verdicts(Results(plan_of(), cells))
    assert "the dev loss of post-norm (none/dan) still fell by 5.9%, so" in answer.doubts[0]
    none = {c: dataclasses.replace(r, stopped_at=2, sentences=None) for c, r in cells.items()}
    for given, doubt in (
        (none, "6 of 6 trainings of post-norm (none/dan) diverged"),
        ({}, "of post-norm (none/dan) no training came to its end"),
    ):
        (answer,) = verdict.verdicts(Results(plan_of(), given))
        assert answer.doubts[0] == doubt and len(answer.doubts) == 2
        assert answer.loss is answer.bleu is None and verdict.table([answer]).rows == []


@pytest.mark.parametrize(
    ("schedule", "doubts"),
    [("*linear_decay,learning_rate_decay_steps=4000", 0), ("", 2), ("*rsqrt_decay", 2)],
)
def test_a_rate_that_falls_to_nothing_ends_a_whole_training(schedule, doubts):
    plan = plan_of(
        warmups=(700,), hparams=f"learning_rate_schedule=constant*linear_warmup{schedule}"
    )
    cells = {c: result_of(c, 2.0 if c.variant == POST else 2.2, fall=0.05) for c in plan.cells()}
    (answer,) = verdict.verdicts(Results(plan, cells))
    assert len(answer.doubts) == doubts
    assert answer.loss.better == 0


def diverged(seeds: int) -> dict[Cell, CellResult]:
    """Post-norm's cells after 2000 steps of warm-up, of which the first seeds diverged."""
    cells = (Cell(3, 2000, POST, seed) for seed in range(seeds))
    return {
        cell: dataclasses.replace(result_of(cell, 2.0), stopped_at=3, sentences=None)
        for cell in cells
    }


def test_one_that_always_diverges_with_a_warm_up_is_judged_by_another():
    (answer,) = verdict.verdicts(found(plan_of(), but=diverged(3)))
    assert answer.warmups == (700, 700) and answer.doubts == ()


def test_one_that_diverges_with_its_best_warm_up_is_not_judged_by_a_worse():
    (answer,) = verdict.verdicts(found(plan_of(), but=diverged(1)))
    assert answer.warmups == (2000, 700)
    assert answer.doubts[0] == "1 of 3 trainings of post-norm (none/dan) diverged"
