"""Experiment: attention over long inputs does not need their square in memory.

Plain attention against layers/blockwise_attention.py (Rabe and Staats 2021), one head of one
sequence that attends to itself, forwards. Each measurement has a process of its own, because the
peak of a process only rises: what counts is by how much it rises while the
compiled layer runs for the first time.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import memory, processes
from t2t_repro.layers.blockwise_attention import blockwise_attention
from t2t_repro.studies.experiments.result import Progress, Result
from t2t_repro.views import pictures

LENGTHS = (1024, 2048, 4096, 8192)  # n
WIDTH = 64  # H, a head of the paper's
SMALL = 128  # a length that is run first, so that what TensorFlow itself needs is there
REPETITIONS = 7  # timed, once the memory is measured
QUADRATIC = 1.5  # the exponent from which the growth of plain attention is taken for a square's
SAVES = 4  # how many times less the blocks must need at the greatest length
EQUAL = 1e-5  # the difference up to which the two count as equal


class Row(NamedTuple):
    """A row of the CSV: one kind of attention at one length.

    megabytes: by which the process's peak rose, 10^6 bytes each.
    milliseconds: the fastest of the runs after it.
    difference: the largest, of any output from plain attention's.
    """

    kind: str
    length: int
    megabytes: float
    milliseconds: float
    difference: float


def plain(x):
    """(B, 1, T, H) -> (B, 1, T, H): queries, keys and values are the same."""
    logits = ops.matmul(x * WIDTH**-0.5, ops.transpose(x, (0, 1, 3, 2)))
    return ops.matmul(ops.softmax(logits), x)


def in_blocks(x):
    """The same by blocks."""
    return blockwise_attention(x * WIDTH**-0.5, x, x)


KINDS: dict[str, Callable] = {"plain": plain, "in blocks": in_blocks}


class Attend(keras.layers.Layer):
    """One of KINDS as a layer, so that the backend compiles it."""

    def __init__(self, kind: str, **kwargs):
        super().__init__(**kwargs)
        self.kind = kind

    def call(self, x):
        """(B, 1, T, H) -> (B, 1, T, H)."""
        return KINDS[self.kind](x)


def run(progress: Progress = lambda text: None) -> Result:
    """Measures both kinds at every length: eight processes, each some seconds."""
    rows = []
    for length in LENGTHS:
        for kind in KINDS:
            progress(f"{kind}, length {length}")
            rows.append(in_a_process(kind, length))
    return Result(Row._fields, rows, picture(rows), sentences(rows))


def in_a_process(kind: str, length: int) -> Row:
    """Measures one kind at one length in a new process.

    Raises:
        UserError: if the process fails; it may be killed for its memory.
    """
    return Row(*processes.call(measure, kind, length))


def measure(kind: str, length: int) -> Row:
    """Measures one kind at one length in this process, which must not have done so before."""
    model(kind, SMALL).predict_on_batch(random(SMALL))
    measured, x = model(kind, length), random(length)
    before = memory.peak()
    measured.predict_on_batch(x)
    megabytes = (memory.peak() - before) / 1e6
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        outputs = measured.predict_on_batch(x)
        seconds.append(time.perf_counter() - start)
    difference = np.abs(outputs - model("plain", length).predict_on_batch(x)).max()
    return Row(kind, length, megabytes, 1e3 * min(seconds), float(difference))


def model(kind: str, length: int) -> keras.Model:
    """Returns a model of nothing but one kind of attention."""
    inputs = keras.Input((1, length, WIDTH), batch_size=1)
    return keras.Model(inputs, Attend(kind)(inputs))


def random(length: int) -> np.ndarray:
    """Returns float32 (1, 1, length, WIDTH)."""
    return np.random.default_rng(0).standard_normal((1, 1, length, WIDTH), "float32")


def exponent(rows: Sequence[Row], kind: str) -> float:
    """Returns the power of the length with which a kind's memory grows, by least squares."""
    of = [row for row in rows if row.kind == kind]
    memory = [max(row.megabytes, 0.1) for row in of]  # what is below is the system's own noise
    return float(np.polyfit(np.log([row.length for row in of]), np.log(memory), 1)[0])


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim holds where plain attention's memory grows with at least the power QUADRATIC, and the
    blocks need at least SAVES times less at the greatest length. The two kinds count as equal up to
    a difference of EQUAL.
    """
    longest = max(row.length for row in rows)
    at = {row.kind: row for row in rows if row.length == longest}
    few, *_ = sorted(row for row in rows if row.kind == "in blocks")
    whole, blocks = at["plain"], at["in blocks"]
    power = exponent(rows, "plain")
    saves = whole.megabytes >= SAVES * blocks.megabytes
    first = "As Rabe and Staats say: " if power >= QUADRATIC and saves else "No support: "
    first += (
        f"plain attention's memory grows with the length to the power of {power:.2f}, to "
        f"{whole.megabytes:.0f} MB at {longest}, and that of attention in blocks from "
        f"{few.megabytes:.0f} MB at {few.length} to {blocks.megabytes:.0f} MB, outputs included."
    )
    difference = max(row.difference for row in rows if row.kind == "in blocks")
    second = "Their outputs are equal" if difference <= EQUAL else "Their outputs are NOT equal"
    second += (
        f" (the largest difference is {difference:.1e}), and at length {longest} the blocks take "
        f"{blocks.milliseconds / whole.milliseconds:.1f} times as long."
    )
    return first, second


def picture(rows: Sequence[Row]):
    """Draws memory and time against the length."""
    figure, axes = pictures.figure(2, title="Attention, plain and in blocks", width=4.6)
    labels = (("peak of memory", "MB"), ("time of a pass", "ms"))
    for i, each in enumerate(axes):
        for kind in KINDS:
            of = [row for row in rows if row.kind == kind]
            each.plot([row.length for row in of], [row[2 + i] for row in of], "o-", label=kind)
        each.set(xscale="log", yscale="log", title=labels[i][0], ylabel=labels[i][1])
        each.set_xlabel("length")
        each.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
        each.minorticks_off()
        each.legend(fontsize=8)
    return figure
