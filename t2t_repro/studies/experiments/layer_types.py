"""Experiment: what a layer costs on this machine, in time and memory, over length and width.

`table1` measures the kinds that t2t-paper does (studies/paper/layer_costs.py), at greater lengths
and widths; beside them the model's own restricted self-attention (local_mask_right). How far a
layer carries what it reads is distance.py's question.

`long_inputs` measures that attention over long inputs does not need their square in memory: plain
attention against layers/blockwise_attention.py (Rabe and Staats 2021), one head of one sequence
that attends to itself.

Memory is by how much the peak of a process of its own rises when the compiled layer runs for the
first time, because the peak of a process only rises.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from t2t_repro import memory, processes, progress
from t2t_repro.layers.blockwise_attention import blockwise_attention
from t2t_repro.layers.local_attention import LocalSelfAttention
from t2t_repro.paper import published
from t2t_repro.studies.experiments.result import Result
from t2t_repro.studies.paper import layer_costs as costs
from t2t_repro.studies.power_law import exponent
from t2t_repro.training.devices import fastest
from t2t_repro.views import pictures

REPETITIONS = 7  # of which the fastest counts
SIZES = costs.Sizes((256, 512, 1024, 2048), (128, 256, 512, 1024), 256, 256, REPETITIONS)
LENGTHS, WIDTH = SIZES.lengths, SIZES.width
NEAR = 0.3  # how far a fitted exponent may lie from the formula's
SMALL = 64  # a length that is run before memory is measured: what TensorFlow itself needs is there
LEAST = 0.1  # megabytes; what is below is the system's own noise
WHOLE = "Self-Attention with projections"  # what a model has, to compare with the recurrent layer
RESTRICTED = "Restricted with projections"

LONG = (1024, 2048, 4096, 8192)  # n, of `long_inputs`
HEAD = 64  # H, the width of a head of the paper's
QUADRATIC = 1.5  # the exponent from which the growth of plain attention is taken for a square's
SAVES = 4  # how many times less the blocks must need at the greatest length
EQUAL = 1e-5  # the difference up to which the two count as equal
PLAIN, IN_BLOCKS = "plain", "in blocks"


class RestrictedAttention(keras.layers.Layer):
    """The model's restricted self-attention, projections included, in blocks of 32."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.attention = LocalSelfAttention(costs.NEIGHBOURS, True, costs.HEADS, width, width)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.attention(x)[0]


class DotProductsInBlocks(keras.layers.Layer):
    """What costs.DotProducts computes, without ever holding its weights."""

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        x = x[:, None]
        return blockwise_attention(x * x.shape[-1] ** -0.5, x, x)[:, 0]


KINDS: dict[str, costs.Kind] = {
    **costs.KINDS,
    RESTRICTED: (
        RestrictedAttention,
        lambda n, d: 8 * costs.NEIGHBOURS * n * d + 8 * n * d * d,
    ),
}
ATTENTIONS: dict[str, Callable[[], keras.layers.Layer]] = {
    PLAIN: costs.DotProducts,
    IN_BLOCKS: DotProductsInBlocks,
}


class Row(NamedTuple):
    """A row of table 1's CSV: one kind of layer at one length and width, a pass over a batch.

    megabytes: 10^6 bytes each; nan at the widths other than WIDTH, where it is not measured.
    """

    layer: str
    length: int
    width: int
    milliseconds: float
    megabytes: float


class Attention(NamedTuple):
    """A row of the CSV of `long_inputs`: one kind of attention at one length.

    difference: the largest, of any output from plain attention's.
    """

    kind: str
    length: int
    megabytes: float
    milliseconds: float
    difference: float


Memory = Mapping[str, Sequence[float]]  # megabytes of each kind, at LENGTHS


def table1() -> Result:
    """Measures every kind of KINDS; some two minutes on two cores."""
    kinds = progress.track(KINDS, "layer_types, memory", len(KINDS), "kinds")
    risen = {name: processes.call(megabytes, name) for name in kinds}
    measured = costs.measure(KINDS, SIZES, "layer_types, time")
    rows = [
        Row(cost.name, n, d, ms, risen[cost.name][LENGTHS.index(n)] if d == WIDTH else math.nan)
        for cost in measured
        for (n, d), ms in cost.milliseconds.items()
    ]
    return Result(rows, picture(measured, risen), sentences(measured, risen))


def long_inputs() -> Result:
    """Measures both kinds of ATTENTIONS at every length: eight processes, each some seconds."""
    points = [(kind, length) for length in LONG for kind in ATTENTIONS]
    rows = [
        processes.call(attention, kind, length)
        for kind, length in progress.track(points, "memory", len(points), "processes")
    ]
    return Result(rows, long_picture(rows), long_sentences(rows))


def megabytes(name: str) -> list[float]:
    """Returns by how much this process's peak rises with a kind's passes at each of LENGTHS.

    The process must not have computed anything before.
    """
    make, _ = KINDS[name]
    costs.forward(make(WIDTH), SMALL, WIDTH)()
    before, risen = memory.peak(), []
    for n in LENGTHS:
        costs.forward(make(WIDTH), n, WIDTH)()
        risen.append((memory.peak() - before) / 1e6)
    return risen


def attention(kind: str, length: int) -> Attention:
    """Measures one kind at one length in this process, which must not have done so before."""
    costs.forward(ATTENTIONS[kind](), SMALL, HEAD, batch=1)()
    run = costs.forward(ATTENTIONS[kind](), length, HEAD, batch=1, outputs=True)
    before = memory.peak()
    outputs = run()
    risen = (memory.peak() - before) / 1e6
    milliseconds = 1e3 * fastest(run, REPETITIONS)
    plain = costs.forward(ATTENTIONS[PLAIN](), length, HEAD, batch=1, outputs=True)
    return Attention(kind, length, risen, milliseconds, float(np.abs(outputs - plain()).max()))


def memory_exponent(risen: Sequence[float]) -> float:
    """Returns the power of the length with which memory grows, by the two greatest lengths.

    What the layer needs is a small part of a process at the others.
    """
    return exponent(LENGTHS[-2:], [max(mb, LEAST) for mb in risen[-2:]])


def sentences(measured: Sequence[costs.LayerCost], risen: Memory) -> tuple[str, str]:
    """Says what was measured of table 1.

    A kind grows by its formula where both exponents lie within NEAR of table 1's; the claim on
    exponents is supported where all four do. The claim that self-attention is faster than
    recurrence where n < d (section 4) is supported where it was at every such point. Memory is
    said as it was measured.
    """
    by_name = {cost.name: cost for cost in measured}
    fits, kept = [], 0
    for paper in published.TABLE1:
        n, d = by_name[paper.name].exponents
        kept += abs(n - paper.exponents[0]) <= NEAR and abs(d - paper.exponents[1]) <= NEAR
        powers = f"n^{n:.1f} d^{d:.1f} for n^{paper.exponents[0]} d^{paper.exponents[1]}"
        fits.append(f"{paper.name} {powers}")
    kinds = len(published.TABLE1)
    first = "The times grow as table 1 says" if kept == kinds else "Not all times grow by table 1"
    first += f", within {NEAR} for {kept} of {kinds} kinds: {', '.join(fits)}."

    attention, recurrent = by_name[WHOLE].milliseconds, by_name["Recurrent"].milliseconds
    short = [(n, d) for n, d in attention if n < d]
    long = [(n, d) for n, d in attention if n >= d]
    faster = {point for point in attention if attention[point] < recurrent[point]}
    second = "As section 4 says, " if faster.issuperset(short) else "Not as section 4 says, "
    second += (
        "self-attention, its projections included, was faster than the recurrent layer at "
        f"{len(faster & set(short))} of {len(short)} measured points with n < d, and at "
        f"{len(faster & set(long))} of {len(long)} with n >= d; of memory, a pass over length "
        f"{LENGTHS[-1]} took "
    )
    second += ", ".join(
        f"{risen[name][-1]:.0f} MB, n^{memory_exponent(risen[name]):.1f}, in {name}"
        for name in (WHOLE, RESTRICTED, "Recurrent", "Convolutional")
    )
    return first, second + "."


def long_sentences(rows: Sequence[Attention]) -> tuple[str, str]:
    """Says what was measured of attention in blocks.

    The claim holds where plain attention's memory grows with at least the power QUADRATIC, and the
    blocks need at least SAVES times less at the greatest length. The two kinds count as equal up to
    a difference of EQUAL.
    """
    plain, in_blocks = ([row for row in rows if row.kind == kind] for kind in ATTENTIONS)
    (few, *_, blocks), whole = in_blocks, plain[-1]
    power = exponent([r.length for r in plain], [max(r.megabytes, LEAST) for r in plain])
    saves = whole.megabytes >= SAVES * blocks.megabytes
    first = "As Rabe and Staats say: " if power >= QUADRATIC and saves else "No support: "
    first += (
        f"plain attention's memory grows with the length to the power of {power:.2f}, to "
        f"{whole.megabytes:.0f} MB at {whole.length}, and that of attention in blocks from "
        f"{few.megabytes:.0f} MB at {few.length} to {blocks.megabytes:.0f} MB, outputs included."
    )
    difference = max(row.difference for row in in_blocks)
    second = "Their outputs are equal" if difference <= EQUAL else "Their outputs are NOT equal"
    second += (
        f" (the largest difference is {difference:.1e}), and at length {whole.length} the blocks "
        f"take {blocks.milliseconds / whole.milliseconds:.1f} times as long."
    )
    return first, second


def picture(measured: Sequence[costs.LayerCost], risen: Memory):
    """Draws time against length and against width, and memory against length."""
    title = f"A layer's forward pass over {costs.BATCH} sequences"
    figure, axes = pictures.figure(3, title=title, width=4.8, height=4.6)
    titles = (
        f"time, width {WIDTH}",
        f"time, length {SIZES.length}",
        f"peak of memory, width {WIDTH}",
    )
    for i, along in enumerate((LENGTHS, SIZES.widths, LENGTHS)):
        each = axes[i]
        points = [(size, WIDTH) if i != 1 else (SIZES.length, size) for size in along]
        for j, cost in enumerate(measured):
            own = risen[cost.name]
            power = cost.exponents[i] if i < 2 else memory_exponent(own)
            values = [cost.milliseconds[point] for point in points] if i < 2 else own
            label = f"{cost.name}: {'ndn'[i]}^{power:.1f}"
            style = "o-" if j < len(pictures.COLORS) else "s--"  # the colours begin anew
            each.plot(along, [max(value, LEAST) for value in values], style, label=label)
        each.set(xscale="log", yscale="log", title=titles[i], ylabel=("ms", "ms", "MB")[i])
        each.set_xlabel(("length n", "width d", "length n")[i])
        pictures.ticks(each, along)
        each.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure


def long_picture(rows: Sequence[Attention]):
    """Draws memory and time of attention against the length."""
    figure, axes = pictures.figure(2, title="Attention, plain and in blocks", width=4.6)
    labels = (("peak of memory", "MB"), ("time of a pass", "ms"))
    for i, each in enumerate(axes):
        for kind in ATTENTIONS:
            of = [row for row in rows if row.kind == kind]
            each.plot([row.length for row in of], [row[2 + i] for row in of], "o-", label=kind)
        each.set(xscale="log", yscale="log", title=labels[i][0], ylabel=labels[i][1])
        each.set_xlabel("length, tokens")
        pictures.ticks(each, LONG)
        each.legend(fontsize=8)
    return figure
