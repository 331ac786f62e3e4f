"""Experiment: additive attention costs more than dot products (paper, section 3.2.1).

"While the two are similar in theoretical complexity, dot-product attention is much faster and more
space-efficient in practice, since it can be implemented using highly optimized matrix
multiplication code." The model's own self-attention, projections included, with each of its scores
(hparam attention_score) over one sequence: additive attention has a hidden layer of each head's
width for each pair of positions, dot products a number.

The times of a length are taken in turns, so that what else the machine does meets all; the fastest
counts. Memory is by how much the peak of a process of its own rises.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras

from t2t_repro import memory, processes, progress
from t2t_repro.layers.attention import SelfAttention
from t2t_repro.studies.experiments.attention_scores import SCORES
from t2t_repro.studies.experiments.result import Result
from t2t_repro.studies.paper import layer_costs as costs
from t2t_repro.studies.power_law import exponent
from t2t_repro.training.devices import fastest
from t2t_repro.views import pictures

LENGTHS = (64, 128, 256, 512)  # n
WIDTH, HEADS = 256, 4
TURNS = 7
SMALL = 16  # a length that is run before memory is measured
LEAST = 0.1  # megabytes; what is below is the system's own noise
MUCH = 2  # times as long, and as much, count as "much"
ADDITIVE, DOT = "additive", "scaled dot product"


class Row(NamedTuple):
    """A row of the CSV: one score at one length, a forward pass over one sequence."""

    score: str
    length: int
    milliseconds: float
    megabytes: float


class Attention(keras.layers.Layer):
    """The model's self-attention with a score."""

    def __init__(self, score: str, **kwargs):
        super().__init__(**kwargs)
        self.attention = SelfAttention(HEADS, WIDTH, WIDTH, score=score)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.attention(x)[0]


def run() -> Result:
    """Measures every score at every length; a minute on two cores."""
    points = [(name, n) for n in LENGTHS for name in SCORES]
    risen = {
        point: processes.call(megabytes, *point)
        for point in progress.track(points, "score_costs, memory", len(points), "processes")
    }
    taken: dict[tuple[str, int], float] = {}
    for n in progress.track(LENGTHS, "score_costs, time", len(LENGTHS), "lengths"):
        taken |= {(name, n): ms for name, ms in milliseconds(n).items()}
    rows = [Row(*point, taken[point], risen[point]) for point in points]
    return Result(rows, picture(rows), sentences(rows))


def megabytes(name: str, length: int) -> float:
    """Returns by how much this process's peak rises with a pass; it has computed nothing before."""
    costs.forward(Attention(SCORES[name]), SMALL, WIDTH, batch=1)()
    pass_through = costs.forward(Attention(SCORES[name]), length, WIDTH, batch=1)
    before = memory.peak()
    pass_through()
    return max((memory.peak() - before) / 1e6, LEAST)


def milliseconds(length: int) -> dict[str, float]:
    """Returns the fastest pass of each score, of turns that each has one of."""
    passes = {
        name: costs.forward(Attention(score), length, WIDTH, batch=1)
        for name, score in SCORES.items()
    }
    for run_once in passes.values():
        run_once()
    turns = [{name: fastest(of, 1) for name, of in passes.items()} for _ in range(TURNS)]
    return {name: 1e3 * min(turn[name] for turn in turns) for name in passes}


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim is supported where at the greatest length additive attention takes at least MUCH times
    as long as scaled dot products, and at least MUCH times as much memory.
    """
    far = {row.score: row for row in rows if row.length == LENGTHS[-1]}
    slower = far[ADDITIVE].milliseconds / far[DOT].milliseconds
    larger = far[ADDITIVE].megabytes / far[DOT].megabytes
    supported = slower >= MUCH and larger >= MUCH
    first = "As section 3.2.1 says" if supported else "The numbers do not support section 3.2.1"
    first += (
        f": at length {LENGTHS[-1]} additive attention takes {slower:.1f} times as long as scaled "
        f"dot products ({far[ADDITIVE].milliseconds:.0f} against {far[DOT].milliseconds:.0f} ms), "
        f"and {larger:.1f} times the memory ({far[ADDITIVE].megabytes:.0f} against "
        f"{far[DOT].megabytes:.0f} MB)."
    )
    of = {name: [row.megabytes for row in rows if row.score == name][-2:] for name in SCORES}
    powers = {name: exponent(LENGTHS[-2:], values) for name, values in of.items()}
    told = ", ".join(f"n^{power:.1f} for {name}" for name, power in powers.items())
    return first, f"Between the two greatest lengths memory grows as {told}."


def picture(rows: Sequence[Row]):
    """Draws time and memory against the length."""
    title = f"Self-attention of width {WIDTH}, {HEADS} heads, one sequence"
    figure, axes = pictures.figure(2, title=title, width=4.6)
    labels = (("time of a pass", "ms"), ("peak of memory", "MB"))
    for i, each in enumerate(axes):
        for name, style in zip(SCORES, ("o-", "s-", "x--", "^-"), strict=True):
            of = [row for row in rows if row.score == name]
            each.plot([row.length for row in of], [row[2 + i] for row in of], style, label=name)
        each.set(xscale="log", yscale="log", title=labels[i][0], ylabel=labels[i][1])
        each.set_xlabel("length n, tokens")
        pictures.ticks(each, LENGTHS)
        each.legend(fontsize=8)
    return figure
