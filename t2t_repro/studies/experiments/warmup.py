"""Experiment: post-norm needs a warm-up, pre-norm does not (Xiong et al. 2020).

The same deep and narrow model learns to copy under post-norm ("none/dan") and under pre-norm
("n/da"), with the rate risen to the same peak in more or fewer steps and constant from there.
Seeds, batches and their order are the same for all. What a cell is, and what a warm-up of 0 is, is
t2t-compare's (studies/compare/grid.py). Its trainings are whole runs, with data, checkpoints and
measurements, which would take most of the time for what is not asked here.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_repro.studies.compare import grid
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.result import Progress, Result
from t2t_repro.training import distribution, learning_rate
from t2t_repro.views import pictures

POST, PRE = "none/dan", "n/da"
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


def plan() -> grid.Plan:
    """Returns the grid. The schedule has no decay: T2T's own would tie its peak to the warm-up."""
    return grid.Plan(
        problem="algorithmic_identity_decimal40",  # the task's name; nothing is read
        data_dir="",
        hparams_set="transformer_quickstart",
        hparams="hidden_size=64,filter_size=128,learning_rate_schedule=constant*linear_warmup",
        depths=(DEPTH,),
        warmups=WARMUPS,
        sequences=(POST, PRE),
        seeds=SEEDS,
        train_steps=STEPS,
        learning_rate_constant=RATE,
    )


def run(progress: Progress = lambda text: None) -> Result:
    """Trains every cell; five minutes of processor time, on two cores."""
    whole = plan()
    countdown = copying.Countdown(progress, len(whole.cells()) * STEPS)
    rows = []
    for sequences in whole.sequences:
        cells = [cell for cell in whole.cells() if cell.sequences == sequences]
        hparams = grid.hparams_of(whole, cells[0])  # all alike but for the rate
        learner = copying.Learner(functools.partial(copying.transformer, hparams, SYMBOLS))
        rows += [train(learner, whole, cell, countdown) for cell in cells]
    return Result(Row._fields, rows, picture(rows), sentences(rows))


def train(
    learner: copying.Learner,
    whole: grid.Plan,
    cell: grid.Cell,
    countdown: copying.Countdown,
) -> Row:
    """Returns the row of one cell."""
    learner.begin(cell.seed)
    draw = np.random.default_rng(cell.seed)
    rate = learning_rate.schedule(grid.hparams_of(whole, cell))
    for step in range(whole.train_steps):
        batch = copying.draw_batch(draw, SENTENCES, LENGTHS, SYMBOLS)
        try:
            learner.learn(batch, float(rate(step)))
        except distribution.NotFinite:
            countdown.step(str(cell), whole.train_steps - step)
            return Row(cell.sequences, cell.warmup, cell.seed, step, float("inf"), 0.0)
        countdown.step(str(cell))
    tried = copying.draw_batch(np.random.default_rng(2**32), TRIED, LENGTHS, SYMBOLS)
    found = learner.evaluate(tried)
    ends = found["loss"], found["accuracy"]
    return Row(cell.sequences, cell.warmup, cell.seed, whole.train_steps, *ends)


def losses(rows: Sequence[Row], sequences: str, warmup: int) -> list[float]:
    """Returns the loss of each seed."""
    return [row.loss for row in rows if (row.sequences, row.warmup) == (sequences, warmup)]


def best(rows: Sequence[Row], sequences: str) -> int:
    """Returns the warm-up with the lowest mean loss; the shortest of those."""
    warmups = sorted({row.warmup for row in rows})
    return min(warmups, key=lambda warmup: np.mean(losses(rows, sequences, warmup)))


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    A model needs a warm-up where without one its best seed ends above the worst seed with its best
    warm-up. The claims are that post-norm does, and that pre-norm does not.
    """

    def needs(sequences: str) -> bool:
        return min(losses(rows, sequences, 0)) > max(losses(rows, sequences, best(rows, sequences)))

    def said(sequences: str) -> str:
        return ", ".join(
            f"{copying.spread(losses(rows, sequences, warmup))} after {warmup}"
            for warmup in WARMUPS
        )

    post, pre = needs(POST), needs(PRE)
    first = (
        "As Xiong et al. say, post-norm needs a warm-up here"
        if post
        else ("The numbers do not support that post-norm needs a warm-up here")
    )
    first += (
        f": {STEPS} steps end with a dev loss of {said(POST)} steps of it (mean of {SEEDS} seeds, "
        "least and greatest)."
    )
    second = (
        "Not as they say, pre-norm needs one too" if pre else "Pre-norm is not shown to need one"
    )
    second += f": {said(PRE)}"
    stopped = [row for row in rows if row.steps < STEPS]
    second += f"; {len(stopped)} of {len(rows)} trainings stopped at a loss that was not finite."
    return first, second


def picture(rows: Sequence[Row]):
    """Draws loss and accuracy against the warm-up: each seed a mark, a line through the means."""
    figure, axes = pictures.figure(
        2, title=f"{DEPTH} + {DEPTH} layers after {STEPS} steps of copying, peak rate {RATE:g}"
    )
    places = range(len(WARMUPS))  # 0 has no place on a logarithmic axis
    for each, name in zip(axes, ("loss", "accuracy"), strict=True):
        for sequences, label in ((POST, "post-norm"), (PRE, "pre-norm")):
            of = [
                [
                    getattr(row, name)
                    for row in rows
                    if row[:2] == (sequences, warmup) and row.steps == STEPS
                ]
                for warmup in WARMUPS
            ]
            means = [np.mean(values) if values else np.nan for values in of]
            (line,) = each.plot(places, means, "-", label=f"{label} ({sequences})")
            for place, values in zip(places, of, strict=True):
                each.plot([place] * len(values), values, "o", color=line.get_color(), markersize=4)
                if len(values) < SEEDS:
                    each.plot([place], [0], "x", color=line.get_color())
        each.set(xlabel="warm-up steps", ylabel="dev loss, nats" if name == "loss" else name)
        each.set_xticks(places, [str(warmup) for warmup in WARMUPS])
        each.set_ylim(bottom=0)
        each.legend(fontsize=8)
    return figure
