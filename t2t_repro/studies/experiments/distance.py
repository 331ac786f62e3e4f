"""Experiment: what lies far apart is learned where the path is short (paper, section 4, table 1).

"One key factor affecting the ability to learn such dependencies is the length of the paths forward
and backward signals have to traverse in the network." The third column of table 1 says how long
that is, and the text below it what convolutions need to connect all positions. Each kind of layer
reads n words and tells the first at the end: one layer where that connects them, else as many as it
takes. Kernels are of k = 3; with k = n a separable convolution sees n positions to each side.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_repro.studies.experiments import copying, recall
from t2t_repro.studies.experiments.recall import DISTANCES, Row, Variant
from t2t_repro.studies.experiments.result import Result
from t2t_repro.studies.paper import layer_costs as costs
from t2t_repro.views import pictures

LEARNED = 0.9  # the accuracy from which it counts as learned


def _contiguous(n: int) -> int:
    """How many convolutions see n positions back."""
    return math.ceil(n / (costs.KERNEL - 1))


def _dilated(n: int) -> int:
    """The same, where each has a dilation k times that of the one before it."""
    return round(math.log(n + 1, costs.KERNEL))


def _convolution(dilation: int = 1) -> keras.layers.Layer:
    arguments = {"padding": "causal", "dilation_rate": dilation, "activation": "relu"}
    return keras.layers.Conv1D(recall.WIDTH, costs.KERNEL, **arguments)


def _separable(n: int) -> keras.layers.Layer:
    size = recall.WIDTH, 2 * n + 1
    return keras.layers.SeparableConv1D(*size, padding="same", activation="relu")


STUDY = recall.Study(
    "distance",
    {
        "self-attention": Variant(lambda n: [costs.WholeAttention(recall.WIDTH)], lambda n: 1),
        "recurrent (LSTM)": Variant(
            lambda n: [keras.layers.LSTM(recall.WIDTH, return_sequences=True)], lambda n: n
        ),
        "convolutions, contiguous": Variant(
            lambda n: [_convolution() for _ in range(_contiguous(n))], _contiguous
        ),
        "convolutions, dilated": Variant(
            lambda n: [_convolution(costs.KERNEL**i) for i in range(_dilated(n))], _dilated
        ),
        "separable convolution, k = n": Variant(lambda n: [_separable(n)], lambda n: 1),
    },
    roles=1,
    places=lambda draw, sentences, n: np.zeros((sentences, 1), int),  # the first word
)


def run(folder: Path) -> Result:
    """Trains every kind at every distance; what has ended is kept in `folder`."""
    rows = recall.run(STUDY, folder)
    return Result(rows, picture(rows), sentences(rows))


def kinds(least: float, most: float) -> list[str]:
    """Returns those whose path at the greatest distance is from `least` to `most`."""
    far = DISTANCES[-1]
    return [name for name, of in STUDY.variants.items() if least <= of.path(far) <= most]


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim is supported where at the least distance every seed of every kind has LEARNED, and at
    the greatest the worst seed of the kinds of a path of 1 is above the best of those whose path
    grows with n. Those whose path grows with its logarithm are said beside them.
    """
    of = {name: STUDY.accuracies(rows, name) for name in STUDY.variants}
    near, far = DISTANCES[0], DISTANCES[-1]
    short, between, long = kinds(1, 1), kinds(2, math.log2(far)), kinds(math.log2(far), math.inf)
    worst, best = (
        min(min(of[name][far]) for name in short),
        max(max(of[name][far]) for name in long),
    )
    supported = min(min(each[near]) for each in of.values()) >= LEARNED and worst > best
    first = "As section 4 says" if supported else "The numbers do not support what section 4 says"
    short_told, between_told, long_told = (
        ", ".join(
            f"{copying.spread(of[name][far])} with {name} (path {STUDY.variants[name].path(far)})"
            for name in names
        )
        for names in (short, between, long)
    )
    first += (
        f": after {recall.STEPS} steps a word {far} words back is told with an accuracy of "
        f"{short_told}, and of {long_told}; between them, of {between_told} (mean, least and "
        f"greatest of {recall.SEEDS} seeds; who guesses has {recall.GUESSED:.2f})."
    )
    reach = {
        name: [n for n, values in each.items() if min(values) >= LEARNED]
        for name, each in of.items()
    }
    parts = [f"{max(ns) if ns else 'none'} with {name}" for name, ns in reach.items()]
    second = f"The greatest distance at which every seed has at least {LEARNED} is "
    return first, second + f"{', '.join(parts)}, of {', '.join(map(str, DISTANCES))} tried."


def picture(rows: Sequence[Row]):
    """Draws the accuracy against the distance and against the path."""
    title = f"Telling the first of n words, after {recall.STEPS} steps"
    figure, (left, right) = pictures.figure(2, title=title, width=5.0, height=4.2)
    for i, (name, variant) in enumerate(STUDY.variants.items()):
        of = STUDY.accuracies(rows, name)
        # Those that are equal lie on one another: the later are smaller.
        style: dict[str, Any] = {"marker": "os^Dv"[i], "markersize": 11 - 1.8 * i}
        pictures.band(left, [*of], [*of.values()], label=name, **style)
        means = [np.mean(values) for values in of.values()]
        right.plot([variant.path(n) for n in of], means, linestyle="none", **style)
    labels = "distance n, words", "longest path: layers, or steps of the LSTM"
    for axes, label in zip((left, right), labels, strict=True):
        axes.axhline(recall.GUESSED, color="#888888", linestyle=":", linewidth=1)
        axes.set(xscale="log", xlabel=label, ylabel="accuracy; dotted: guessed", ylim=(0, 1.03))
    pictures.ticks(left, DISTANCES)
    pictures.ticks(right, (1, 2, 4, 8, 16, 40, 80))
    left.set_title("the same distance, different paths")
    right.set_title("all kinds and distances by their paths")
    left.legend(fontsize=7)
    return figure
