"""Experiment: table 1 on this machine: time against length n and width d, with fitted exponents.

The kinds that t2t-paper measures (reports/layer_costs.py), at greater lengths and widths, and the
separable convolution beside them, whose cost (paper, section 4: k n d + n d^2) is no single power.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras

from t2t_repro.reports import layer_costs as costs
from t2t_repro.reports import pictures, published
from t2t_repro.reports.experiment_result import Progress, Result

LENGTHS = (256, 512, 1024, 2048)  # n, at WIDTH
WIDTHS = (128, 256, 512, 1024)  # d, at LENGTH
LENGTH, WIDTH = 256, 256
REPETITIONS = 5  # of which the fastest counts
NEAR = 0.3  # how far a fitted exponent may lie from the formula's
WHOLE = "Self-Attention with projections"  # what a model has, to compare with the recurrent layer
SEPARABLE: dict[str, costs.Kind] = {
    "Convolutional (separable)": (
        lambda d: keras.layers.SeparableConv1D(d, costs.KERNEL, padding="same"),
        lambda n, d: 2 * costs.KERNEL * n * d + 2 * n * d * d,
    )
}


class Row(NamedTuple):
    """A row of the CSV: one kind of layer at one length and width, a forward pass of a batch."""

    layer: str
    length: int
    width: int
    milliseconds: float


def run(progress: Progress = lambda text: None) -> Result:
    """Measures every kind; about a minute on two cores."""
    points = sorted({(n, WIDTH) for n in LENGTHS} | {(LENGTH, d) for d in WIDTHS})
    measured = []
    for name, (make, flop) in {**costs.KINDS, **SEPARABLE}.items():
        times = {}
        for n, d in points:
            progress(f"{name}, n {n}, d {d}")
            times[n, d] = costs.milliseconds(make(d), n, d, REPETITIONS)
        of_n = costs.exponent(LENGTHS, [times[n, WIDTH] for n in LENGTHS])
        of_d = costs.exponent(WIDTHS, [times[LENGTH, d] for d in WIDTHS])
        measured.append(costs.LayerCost(name, times, (of_n, of_d), flop(LENGTH, WIDTH)))
    rows = [Row(cost.name, *at, ms) for cost in measured for at, ms in cost.milliseconds.items()]
    return Result(Row._fields, rows, picture(measured), sentences(measured))


def sentences(measured: Sequence[costs.LayerCost]) -> tuple[str, str]:
    """Says what was measured.

    A kind grows by its formula where both exponents lie within NEAR of table 1's; the claim on
    exponents is supported where all four do. The claim that self-attention is faster than
    recurrence where n < d (section 4) is supported where it was at every such point.
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
        f"{len(faster & set(long))} of {len(long)} with n >= d."
    )
    return first, second


def picture(measured: Sequence[costs.LayerCost]):
    """Draws time against length and against width."""
    title = f"A layer's forward pass over {costs.BATCH} sequences"
    figure, axes = pictures.figure(2, title=title, width=5.0, height=4.4)
    sizes = (LENGTHS, WIDTHS)
    for i, (each, along) in enumerate(zip(axes, sizes, strict=True)):
        points = [(size, WIDTH) if i == 0 else (LENGTH, size) for size in along]
        for cost in measured:
            label = f"{cost.name}: {'nd'[i]}^{cost.exponents[i]:.1f}"
            each.plot(along, [cost.milliseconds[point] for point in points], "o-", label=label)
        each.set(xscale="log", yscale="log", ylabel="ms")
        each.set_xticks(along, [str(size) for size in along])
        each.minorticks_off()
        each.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    axes[0].set(title=f"width {WIDTH}", xlabel="length n")
    axes[1].set(title=f"length {LENGTH}", xlabel="width d")
    return figure
