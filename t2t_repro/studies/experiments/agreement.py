"""Experiment: one head confuses who did what to whom, several do not (paper, section 3.2.2).

"Multi-head attention allows the model to jointly attend to information from different
representation subspaces at different positions. With a single attention head, averaging inhibits
this." The authors' lecture (CS224n, 2019) has the example: a verb has to know its subject and its
object. Here both stand anywhere among n words, each known by its role, and one layer of
self-attention of one width tells at the end which word is the subject and which the object. A mean
of the two says which words they are, but not which is which.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_repro.studies.experiments import copying, recall
from t2t_repro.studies.experiments.recall import DISTANCES, Row, Variant
from t2t_repro.studies.experiments.result import Result
from t2t_repro.studies.paper import layer_costs as costs
from t2t_repro.views import pictures

HEADS = {"1 head": 1, "2 heads": 2, "8 heads": 8}
ONE, TWO, EIGHT = HEADS
# Who knows both words takes one of two orders, which are the same where the words are.
CONFUSED = (1 + recall.GUESSED) / 2


def _heads(count: int) -> Variant:
    return Variant(lambda n: [costs.WholeAttention(recall.WIDTH, count)], lambda n: 1)


def _anywhere(draw: np.random.Generator, sentences: int, n: int) -> np.ndarray:
    return np.argsort(draw.random((sentences, n)), axis=1)[:, :2]


STUDY = recall.Study(
    "agreement",
    {name: _heads(count) for name, count in HEADS.items()},
    roles=2,
    places=_anywhere,
)


def run(folder: Path) -> Result:
    """Trains every number of heads at every distance; what has ended is kept in `folder`."""
    rows = recall.run(STUDY, folder)
    return Result(rows, picture(rows), sentences(rows))


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The claim is supported where at the greatest distance the worst seed of eight heads is above the
    best of one.
    """
    of = {name: STUDY.accuracies(rows, name) for name in STUDY.variants}
    far = DISTANCES[-1]
    supported = min(of[EIGHT][far]) > max(of[ONE][far])
    first = "As section 3.2.2 says" if supported else "The numbers do not support section 3.2.2"

    def told(name: str) -> str:
        return ", ".join(f"{copying.spread(values)} of {n}" for n, values in of[name].items())

    first += (
        f": after {recall.STEPS} steps {ONE} tells subject and object with an accuracy of "
        f"{told(ONE)} words, {EIGHT} that share the same width with {told(EIGHT)} (mean, least and "
        f"greatest of {recall.SEEDS} seeds)."
    )
    second = (
        f"With {TWO}, as many as there are words to tell, it is {told(TWO)}; who knows both words "
        f"but not which is which has {CONFUSED:.2f}, who guesses {recall.GUESSED:.2f}."
    )
    return first, second


def picture(rows: Sequence[Row]):
    """Draws the accuracy against the number of words."""
    title = f"Telling subject and object, after {recall.STEPS} steps"
    figure, axes = pictures.figure(title=title, width=6.0)
    for i, (name, count) in enumerate(HEADS.items()):
        of = STUDY.accuracies(rows, name)
        # Those that are equal lie on one another: the later are smaller.
        style: dict[str, Any] = {"marker": "os^"[i], "markersize": 10 - 2.5 * i}
        label = f"{name} of width {recall.WIDTH // count}"
        pictures.band(axes, [*of], [*of.values()], label=label, **style)
    lines = {"both words known, not which is which": CONFUSED, "guessed": recall.GUESSED}
    for (label, level), dashes in zip(lines.items(), ("--", ":"), strict=True):
        axes.axhline(level, color="#888888", linestyle=dashes, linewidth=1, label=label)
    axes.set(xscale="log", xlabel="words of the sentence", ylabel="accuracy", ylim=(0, 1.03))
    pictures.ticks(axes, DISTANCES)
    axes.legend(fontsize=8)
    return figure
