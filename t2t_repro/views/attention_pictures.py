"""Attention as pictures: the heads of a model side by side, and an overview."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_repro.views import pictures
from t2t_repro.views.attention import SHARES, Head, Maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELLED = 24  # words, beyond which a picture's axes have numbers


def weights(of: Maps) -> "Figure":
    """Draws every head of every layer: a row for each layer, dark is 1."""
    layers, heads = of.weights.shape[:2]
    figure, axes = pictures.figure(
        heads, layers, title=of.title, width=1.5, height=1.55, grid=False
    )
    for i, each in enumerate(np.atleast_1d(axes)):
        layer, head = divmod(i, heads)
        _heat(each, of.weights[layer, head], f"layer {layer}, head {head}")
        _label(each, of, queries=head == 0, keys=layer == layers - 1)
    return figure


def layers(of: Maps) -> "Figure":
    """Draws the mean of each layer's heads, side by side; dark is 1."""
    title = f"{of.title}: mean of the heads"
    figure, axes = pictures.figure(len(of.weights), title=title, width=2.4, height=2.6, grid=False)
    for layer, each in enumerate(np.atleast_1d(axes)):
        _heat(each, of.weights[layer].mean(axis=0), f"layer {layer}")
        _label(each, of, queries=layer == 0, keys=True)
    return figure


def _heat(axes: Any, values: np.ndarray, title: str) -> None:
    axes.imshow(values, cmap=pictures.HEAT, vmin=0, vmax=1, aspect="auto")
    axes.set_title(title, fontsize=7, pad=2)


def _label(axes: Any, of: Maps, queries: bool, keys: bool) -> None:
    """Writes the words beside a map, where they are asked for, or numbers of too many."""
    axes.tick_params(length=0, pad=1)
    axes.set_xticks([])
    axes.set_yticks([])
    if queries:
        axes.set_yticks(*_places(of.queries), fontsize=4)
        axes.set_ylabel("looks", fontsize=5)
    if keys:
        few = len(of.keys) <= _LABELLED
        axes.set_xticks(*_places(of.keys), fontsize=4, rotation=90 if few else 0)
        axes.set_xlabel("attended to", fontsize=5)


def _places(words: Sequence[str]) -> tuple[Sequence[int], Sequence[str]]:
    """Returns which places of an axis have a label, and the labels."""
    if len(words) <= _LABELLED:
        return range(len(words)), words
    some = range(0, len(words), 10 * (1 + len(words) // 100))
    return some, [str(place) for place in some]


def overview(of: Sequence[Head]) -> "Figure":
    """Draws the entropy of all heads, and their share of weight on each place; dark is most."""
    kinds = list(dict.fromkeys(head.kind for head in of))
    names = ("entropy", *SHARES)
    figure, axes = pictures.figure(
        len(names), len(kinds), title="What the heads attend to", width=1.9, height=1.9, grid=False
    )
    most = max((head.entropy for head in of), default=0.0) or 1.0
    for i, each in enumerate(np.atleast_1d(axes)):
        kind, name = kinds[i // len(names)], names[i % len(names)]
        of_kind = [head for head in of if head.kind == kind]
        layers = 1 + max(head.layer for head in of_kind)
        values = np.array([getattr(head, name) for head in of_kind], float).reshape(layers, -1)
        limit = most if name == "entropy" else 1.0
        each.imshow(values, cmap=pictures.HEAT, vmin=0, vmax=limit, aspect="auto")
        for (layer, head), value in np.ndenumerate(values):
            text = "-" if np.isnan(value) else f"{value:.1f}".removeprefix("0")
            dark = value > 0.6 * limit
            ink = "white" if dark else "black"
            each.text(head, layer, text, ha="center", va="center", fontsize=6, color=ink)
        each.set_xticks(range(values.shape[1]), range(values.shape[1]), fontsize=6)
        each.set_yticks(range(layers), range(layers), fontsize=6)
        each.tick_params(length=0, pad=1)
        each.set_xlabel("head", fontsize=7)
        each.set_title(f"{name} (bits)" if name == "entropy" else name, fontsize=8)
        if name == "entropy":
            each.set_ylabel(f"{kind}\nlayer", fontsize=7)
    return figure
