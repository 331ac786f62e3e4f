"""Experiment: what models learn with dot products and with additive attention (paper, 3.2.1).

"While for small values of d_k the two mechanisms perform similarly, additive attention outperforms
dot product attention without scaling for larger values of d_k." A pre-norm model with one layer and
one head each way learns to copy, with each score (hparam attention_score) and keys of each width
(hparam attention_key_channels); the values keep theirs. Seeds, batches and rates are the same.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_repro import progress, registry
from t2t_repro.config import HParams
from t2t_repro.studies.experiments import copying
from t2t_repro.studies.experiments.attention_scores import SCORES
from t2t_repro.studies.experiments.result import Result
from t2t_repro.views import pictures

DOT, SCALED, ADDITIVE = TRAINED = ("dot product", "scaled dot product", "additive")
WIDTHS = (4, 32, 256)  # d_k
SYMBOLS = 20
LENGTHS = (1, 10)
SEEDS = 2
STEPS = 300
SENTENCES = 32  # to a step
RATE, WARMUP = 2e-3, 50
TRIED = 300  # sentences
WIDTH = 64  # of the model, and of the values


class Row(NamedTuple):
    """A row of the CSV: one training; loss (nats a token) and accuracy of sentences not seen."""

    score: str
    width: int
    seed: int
    loss: float
    accuracy: float


def small(score: str, width: int) -> HParams:
    """Returns the configuration of one of TRAINED with keys of a width."""
    return dataclasses.replace(
        registry.get_hparams("transformer_quickstart"),
        num_hidden_layers=1,
        hidden_size=WIDTH,
        filter_size=2 * WIDTH,
        num_heads=1,
        attention_key_channels=width,
        attention_value_channels=WIDTH,
        attention_score=SCORES[score],
    )


def run() -> Result:
    """Trains every score at every width with each seed; minutes of processor time."""
    rows = []
    tried = copying.draw_batch(np.random.default_rng(2**32), TRIED, LENGTHS, SYMBOLS)
    points = [(score, width) for width in WIDTHS for score in TRAINED]
    with progress.report("score_learning", len(points) * SEEDS * STEPS, "steps") as advance:
        for score, width in points:
            make = functools.partial(copying.transformer, small(score, width), SYMBOLS)
            learner = copying.Learner(make)
            for seed in range(SEEDS):
                advance(0, f"{score}, keys of {width}, seed {seed}")
                learner.begin(seed)
                draw = np.random.default_rng(seed)
                batches = (
                    copying.draw_batch(draw, SENTENCES, LENGTHS, SYMBOLS) for _ in range(STEPS)
                )
                copying.train(learner, batches, RATE, WARMUP, advance)
                scores = learner.evaluate(tried)
                rows.append(Row(score, width, seed, scores["loss"], scores["accuracy"]))
    return Result(rows, picture(rows), sentences(rows))


def losses(rows: Sequence[Row], score: str, width: int) -> list[float]:
    """Returns the loss of each seed."""
    return [row.loss for row in rows if (row.score, row.width) == (score, width)]


def compared(rows: Sequence[Row], one: str, other: str, width: int) -> str:
    """Returns whether every seed of one score is "better" or "worse" than all of another's, or the
    ranges of both overlap, which is "alike"."""
    ours, theirs = (losses(rows, score, width) for score in (one, other))
    if max(ours) < min(theirs):
        return "better"
    return "worse" if min(ours) > max(theirs) else "alike"


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim is supported where at the least width additive attention and dot products are alike,
    and at the greatest additive attention is better.
    """
    near, far = WIDTHS[0], WIDTHS[-1]
    words = {width: compared(rows, ADDITIVE, DOT, width) for width in WIDTHS}
    supported = (words[near], words[far]) == ("alike", "better")
    first = "As section 3.2.1 says" if supported else "The numbers do not support section 3.2.1"

    def told(score: str) -> str:
        parts = [f"{copying.spread(losses(rows, score, width))} at {width}" for width in WIDTHS]
        return ", ".join(parts)

    def listed(verdicts: dict[int, str]) -> str:
        return ", ".join(f"{word} at {width}" for width, word in verdicts.items())

    first += (
        f": after {STEPS} steps with keys of width {', '.join(map(str, WIDTHS))} the loss is "
        f"{told(ADDITIVE)} with additive attention and {told(DOT)} with dot products that are not "
        f"scaled (mean, least and greatest of {SEEDS} seeds), so that additive attention is "
        f"{listed(words)}."
    )
    words = {width: compared(rows, SCALED, ADDITIVE, width) for width in WIDTHS}
    second = (
        f"Scaled dot products have {told(SCALED)}: against additive attention they are "
        f"{listed(words)} (alike: the ranges of the seeds overlap)."
    )
    return first, second


def picture(rows: Sequence[Row]):
    """Draws loss and accuracy against the width of the keys."""
    title = f"Copying with three scores, after {STEPS} steps"
    figure, axes = pictures.figure(2, title=title, width=4.6)
    for i, (column, name) in enumerate({"loss": "nats a token", "accuracy": "share"}.items()):
        for j, score in enumerate(TRAINED):
            values = [
                [getattr(row, column) for row in rows if row[:2] == (score, width)]
                for width in WIDTHS
            ]
            # Those that are equal lie on one another: the later are smaller.
            style = {"marker": "os^"[j], "markersize": 9 - 2 * j, "label": score}
            pictures.band(axes[i], WIDTHS, values, **style)
        axes[i].set(xscale="log", title=column, xlabel="width of the keys", ylabel=name)
        pictures.ticks(axes[i], WIDTHS)
        axes[i].legend(fontsize=8)
    axes[0].set_ylim(bottom=0)
    return figure
