"""Experiment: table 1 on this machine: time and memory over length n and width d, with exponents.

The kinds that t2t-paper measures (studies/paper/layer_costs.py), at greater lengths and widths;
beside them the model's own restricted self-attention (self_attention_type=local_mask_right), and
the separable convolution, whose cost (paper, section 4: k n d + n d^2) is no single power.

Memory is by how much the peak of a process of its own rises when the compiled layer runs, at the
lengths one after another: the peak only rises, and so does what the layers need.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import memory, processes
from t2t_repro.layers.local_attention import LocalSelfAttention
from t2t_repro.studies.experiments.result import Progress, Result
from t2t_repro.studies.paper import layer_costs as costs
from t2t_repro.studies.paper import published
from t2t_repro.views import pictures

LENGTHS = (256, 512, 1024, 2048)  # n, at WIDTH
WIDTHS = (128, 256, 512, 1024)  # d, at LENGTH
LENGTH, WIDTH = 256, 256
REPETITIONS = 5  # of which the fastest counts
NEAR = 0.3  # how far a fitted exponent may lie from the formula's
SMALL = 64  # a length that is run before memory is measured: what TensorFlow itself needs is there
LEAST = 0.1  # megabytes; what is below is the system's own noise
WHOLE = "Self-Attention with projections"  # what a model has, to compare with the recurrent layer
RESTRICTED = "Restricted with projections"


class RestrictedAttention(keras.layers.Layer):
    """The model's restricted self-attention, projections included, in blocks of 32."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.attention = LocalSelfAttention(costs.NEIGHBOURS, True, costs.HEADS, width, width)

    def call(self, x):
        """Maps (B, T, D) to (B, T, D)."""
        return self.attention(x)[0]


OTHERS: dict[str, costs.Kind] = {
    RESTRICTED: (
        RestrictedAttention,
        lambda n, d: 8 * costs.NEIGHBOURS * n * d + 8 * n * d * d,
    ),
    "Convolutional (separable)": (
        lambda d: keras.layers.SeparableConv1D(d, costs.KERNEL, padding="same"),
        lambda n, d: 2 * costs.KERNEL * n * d + 2 * n * d * d,
    ),
}
KINDS = {**costs.KINDS, **OTHERS}


class Row(NamedTuple):
    """A row of the CSV: one kind of layer at one length and width, a forward pass of a batch.

    megabytes: 10^6 bytes each; nan at the widths other than WIDTH, where it is not measured.
    """

    layer: str
    length: int
    width: int
    milliseconds: float
    megabytes: float


Memory = Mapping[str, Sequence[float]]  # megabytes of each kind, at LENGTHS


def run(progress: Progress = lambda text: None) -> Result:
    """Measures every kind; some two minutes on two cores."""
    points = sorted({(n, WIDTH) for n in LENGTHS} | {(LENGTH, d) for d in WIDTHS})
    measured, needed = [], {}
    for name, (make, flop) in KINDS.items():
        progress(f"{name}, memory")
        needed[name] = processes.call(megabytes, name)
        times = {}
        for n, d in points:
            progress(f"{name}, n {n}, d {d}")
            times[n, d] = costs.milliseconds(make(d), n, d, REPETITIONS)
        of_n = costs.exponent(LENGTHS, [times[n, WIDTH] for n in LENGTHS])
        of_d = costs.exponent(WIDTHS, [times[LENGTH, d] for d in WIDTHS])
        measured.append(costs.LayerCost(name, times, (of_n, of_d), flop(LENGTH, WIDTH)))
    rows = [
        Row(cost.name, n, d, ms, needed[cost.name][LENGTHS.index(n)] if d == WIDTH else math.nan)
        for cost in measured
        for (n, d), ms in cost.milliseconds.items()
    ]
    return Result(Row._fields, rows, picture(measured, needed), sentences(measured, needed))


def megabytes(name: str) -> list[float]:
    """Returns by how much this process's peak rises with a kind's passes at each of LENGTHS.

    The process must not have computed anything before.
    """
    make, _ = KINDS[name]

    def forward(n: int) -> None:
        inputs = keras.Input((n, WIDTH), batch_size=costs.BATCH)
        model = keras.Model(inputs, ops.mean(make(WIDTH)(inputs), axis=(1, 2)))
        model.predict_on_batch(np.ones((costs.BATCH, n, WIDTH), "float32"))

    forward(SMALL)
    before, found = memory.peak(), []
    for n in LENGTHS:
        forward(n)
        found.append((memory.peak() - before) / 1e6)
    return found


def memory_exponent(found: Sequence[float]) -> float:
    """Returns the power of the length with which memory grows, by the two greatest lengths.

    What the layer needs is a small part of a process at the others.
    """
    small, great = (max(mb, LEAST) for mb in found[-2:])
    return math.log(great / small) / math.log(LENGTHS[-1] / LENGTHS[-2])


def sentences(measured: Sequence[costs.LayerCost], memory: Memory) -> tuple[str, str]:
    """Says what was measured.

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
        f"{memory[name][-1]:.0f} MB, n^{memory_exponent(memory[name]):.1f}, in {name}"
        for name in (WHOLE, RESTRICTED, "Recurrent", "Convolutional")
    )
    second += "."
    return first, second


def picture(measured: Sequence[costs.LayerCost], memory: Memory):
    """Draws time against length and against width, and memory against length."""
    title = f"A layer's forward pass over {costs.BATCH} sequences"
    figure, axes = pictures.figure(3, title=title, width=4.8, height=4.6)
    for i, along in enumerate((LENGTHS, WIDTHS, LENGTHS)):
        each = axes[i]
        points = [(size, WIDTH) if i != 1 else (LENGTH, size) for size in along]
        for cost in measured:
            found = memory[cost.name]
            power = cost.exponents[i] if i < 2 else memory_exponent(found)
            values = [cost.milliseconds[point] for point in points] if i < 2 else found
            label = f"{cost.name}: {'ndn'[i]}^{power:.1f}"
            each.plot(along, [max(value, LEAST) for value in values], "o-", label=label)
        each.set(xscale="log", yscale="log", ylabel=("ms", "ms", "MB")[i])
        each.set_xticks(along, [str(size) for size in along])
        each.minorticks_off()
        each.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    axes[0].set(title=f"width {WIDTH}", xlabel="length n")
    axes[1].set(title=f"length {LENGTH}", xlabel="width d")
    axes[2].set(title=f"peak of memory, width {WIDTH}", xlabel="length n")
    return figure
