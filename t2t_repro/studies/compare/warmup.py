"""Experiment: post-norm needs a warm-up, pre-norm does not (Xiong et al. 2020).

A grid of t2t-compare with fixed axes, asked quickly. The same deep and narrow model learns to copy
under post-norm ("none/dan") and under pre-norm ("n/da"), with the rate risen to the same peak in
more or fewer steps and constant from there; what a cell and a warm-up of 0 are is grid.py's. Seeds,
batches and their order are the same for all. The trainings are not grid runs, whose data,
checkpoints and measurements would take most of the time for what is not asked here.
"""

import functools
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.result import Result
from t2t_repro.study.variants import Cell, Grid, of_sequences
from t2t_repro.training import distribution, learning_rate
from t2t_repro.views import pictures

POST, PRE = "post-norm", "pre-norm"
DEPTH = 6  # layers of the encoder, and of the decoder
WARMUPS = (0, 50, 200)
SEEDS = 2
STEPS = 200
RATE = 2e-3  # the peak
LENGTHS, SYMBOLS = (1, 8), 20
SENTENCES = 64  # to a step
TRIED = 512  # sentences of the loss at the end


class Row(NamedTuple):
    """A row of the CSV: one training.

    steps: made; less than STEPS where a loss or a gradient was not finite, and the training ended.
    loss: of a token of sentences that were not trained on, given those before it, in nats; infinite
        where the training ended before.
    accuracy: the share of their tokens that the model writes; 0 there.
    """

    sequences: str
    warmup: int
    seed: int
    steps: int
    loss: float
    accuracy: float


def asked() -> Grid:
    """Returns the grid. The schedule has no decay: T2T's own would tie its peak to the warm-up."""
    return Grid(
        problem="algorithmic_identity_decimal40",  # the task's name; nothing is read
        data_dir="",
        variants=of_sequences("transformer_quickstart", "none/dan,n/da"),
        hparams="hidden_size=64,filter_size=128,learning_rate_schedule=constant*linear_warmup",
        depths=(DEPTH,),
        warmups=WARMUPS,
        seeds=SEEDS,
        train_steps=STEPS,
        learning_rate_constant=RATE,
    )


def run() -> Result:
    """Trains every cell; five minutes of processor time, on two cores."""
    grid = asked()
    rows = []
    with progress.report("warmup", len(grid.cells()) * STEPS, "steps") as advance:
        for sequences in grid.names:
            cells = [cell for cell in grid.cells() if cell.variant == sequences]
            hparams = grid.hparams_of(cells[0])  # all alike but for the rate
            learner = copying.Learner(functools.partial(copying.transformer, hparams, SYMBOLS))
            for cell in cells:
                advance(0, str(cell))
                rows.append(train(learner, grid, cell, advance))
    return Result(rows, picture(grid, rows), sentences(rows))


def train(learner: copying.Learner, grid: Grid, cell: Cell, advance: progress.Advance) -> Row:
    """Returns the row of one cell."""
    learner.begin(cell.seed)
    draw = np.random.default_rng(cell.seed)
    rate = learning_rate.schedule(grid.hparams_of(cell))
    for step in range(grid.train_steps):
        batch = copying.draw_batch(draw, SENTENCES, LENGTHS, SYMBOLS)
        try:
            learner.learn(batch, float(rate(step)))
        except distribution.NotFinite:
            advance(grid.train_steps - step)
            return Row(cell.variant, cell.warmup or 0, cell.seed, step, float("inf"), 0.0)
        advance()
    tried = copying.draw_batch(np.random.default_rng(2**32), TRIED, LENGTHS, SYMBOLS)
    scores = learner.evaluate(tried)
    ends = scores["loss"], scores["accuracy"]
    return Row(cell.variant, cell.warmup or 0, cell.seed, grid.train_steps, *ends)


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    A model needs a warm-up where without one its best seed ends above the worst seed with its best
    warm-up, that of the lowest mean loss. The claims are that post-norm does, and pre-norm not.
    """
    losses = {
        sequences: {
            warmup: [row.loss for row in rows if row[:2] == (sequences, warmup)]
            for warmup in WARMUPS
        }
        for sequences in (POST, PRE)
    }
    needs = {
        sequences: min(of[0]) > max(min(of.values(), key=statistics.fmean))
        for sequences, of in losses.items()
    }
    said = {
        sequences: ", ".join(f"{copying.spread(of[warmup])} after {warmup}" for warmup in WARMUPS)
        for sequences, of in losses.items()
    }
    first = (
        "As Xiong et al. say, post-norm needs a warm-up here"
        if needs[POST]
        else "The numbers do not support that post-norm needs a warm-up here"
    )
    first += (
        f": {STEPS} steps end with a dev loss of {said[POST]} steps of it (mean of {SEEDS} seeds, "
        "least and greatest)."
    )
    second = (
        "Not as they say, pre-norm needs one too"
        if needs[PRE]
        else "Pre-norm is not shown to need one"
    )
    stopped = [row for row in rows if row.steps < STEPS]
    second += (
        f": {said[PRE]}; {len(stopped)} of {len(rows)} trainings stopped at a loss that was not "
        "finite."
    )
    return first, second


def picture(grid: Grid, rows: Sequence[Row]):
    """Draws loss and accuracy against the warm-up."""
    title = f"{DEPTH} + {DEPTH} layers after {STEPS} steps of copying, peak rate {RATE:g}"
    figure, axes = pictures.figure(2, title=title)
    for each, name in zip(axes, ("loss", "accuracy"), strict=True):
        ends = {
            (DEPTH, row.warmup, row.sequences, row.seed): getattr(row, name)
            for row in rows
            if row.steps == STEPS
        }
        for variant in grid.names:
            means = []
            for place, warmup in enumerate(WARMUPS):
                values = [v for cell, v in ends.items() if cell[1:3] == (warmup, variant)]
                each.plot([place] * len(values), values, "o", markersize=4)
                means.append(np.mean(values) if values else np.nan)
            each.plot(range(len(WARMUPS)), means, label=variant)
        each.set_xticks(range(len(WARMUPS)), [f"{warmup:,}" for warmup in WARMUPS])
        each.legend()
        each.set_ylabel("dev loss, nats" if name == "loss" else name)
        each.set_ylim(bottom=0)
    return figure
