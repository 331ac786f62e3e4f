"""The pictures of t2t-compare. A colour is a variant, and each has one line in every picture."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.study.results import CellResult, Curve, Places, Results
from t2t_repro.views import pictures


def draw(results: Results, folder: pathlib.Path) -> dict[str, str]:
    """Writes every picture that there are numbers for.

    Returns:
        {file name: what it shows}, in the order of the report.
    """
    drawn = {
        "dev-loss.png": (
            _losses(results, "Dev loss", lambda r: r.dev, lambda r: r.unigram_loss, marker="o"),
            "Dev loss by step: the mean of the seeds, in a band from the lowest to the highest. "
            "Dotted: a model that knows only word frequencies.",
        ),
        "training-loss.png": (
            _losses(results, "Training loss", lambda r: r.train, lambda r: r.initial_loss),
            "Training loss by step. Dotted: the loss before the first step. A cross marks the end "
            "of a run whose loss was not finite.",
        ),
        "gradients.png": (
            _by_layer(results, "gradients", "Gradient norm", by_layer, yscale="log"),
            "Gradient norm of each layer's matrices in the deepest model, mean of the seeds: "
            "before the first step, at the first checkpoint and at the last.",
        ),
        "activations.png": (
            _by_layer(results, "activations", "Root mean square", _last_of_layer),
            "Root mean square of each layer's output in the deepest model, at the steps shown.",
        ),
    }
    written = {}
    for name, (figure, caption) in drawn.items():
        if figure is not None:
            pictures.save(figure, folder / name)
            written[name] = caption
    return written


def by_layer(places: Mapping[str, float]) -> dict[str, float]:
    """Joins the gradient norms of a layer's sublayers: the root of the sum of their squares."""
    squares: dict[str, float] = {}
    for place, value in places.items():
        layer = place.rpartition("/")[0] or place
        squares[layer] = squares.get(layer, 0.0) + value**2
    return {layer: square**0.5 for layer, square in squares.items()}


def mean_of(of_runs: Sequence[Places]) -> Places:
    """Returns the mean at each place."""
    places = of_runs[0] if of_runs else {}
    return {place: float(np.mean([of[place] for of in of_runs])) for place in places}


def _style(results: Results, name: str) -> dict[str, Any]:
    number = results.study.names.index(name)
    return {"color": pictures.COLORS[number % len(pictures.COLORS)], "label": name}


def _panels(rows: Sequence, columns: Sequence, title: str):
    """Returns a figure and its axes, (rows, columns), which share the scale of a row."""
    figure, axes = pictures.figure(len(columns), len(rows), title=title, width=3.6, height=2.8)
    axes = np.atleast_1d(axes).reshape(len(rows), len(columns))
    for row in axes:
        for each in row[1:]:
            each.sharey(row[0])
    return figure, axes


def _with_legend(figure, axes):
    """Returns the figure, with what its lines are below them: names of variants may be long."""
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", fontsize=8)
    return figure


def _losses(
    results: Results,
    title: str,
    curve: Callable[[CellResult], Curve],
    level: Callable[[CellResult], float | None],
    marker: str = "",
):
    """Draws a row a warm-up, a column a depth."""
    study = results.study
    figure, axes = _panels(study.warmups, study.depths, title)
    for (i, j), each in np.ndenumerate(axes):
        here = results.select(depth=study.depths[j], warmup=study.warmups[i])
        each.set(title=here[0].variant.setting if here else "")
        each.set(xlabel="step", ylabel="loss, nats")
        for name in study.names:
            at: dict[int, list[float]] = {}
            style = _style(results, name)
            for result in (r for r in here if r.variant.name == name):
                points = curve(result)
                for step, value in points:
                    at.setdefault(step, []).append(value)
                if result.stopped_at is not None and points:
                    each.plot(*points[-1], color=style["color"], marker="x", markersize=8)
            if at:
                steps, values = zip(*sorted(at.items()), strict=True)
                pictures.band(each, steps, values, marker=marker, markersize=3, **style)
            levels = [level(r) for r in here if r.variant.name == name]
            if known := [value for value in levels if value is not None]:
                each.axhline(float(np.mean(known)), color=style["color"], ls=":", lw=1)
    return _with_legend(figure, axes)


def _last_of_layer(places: Places) -> Places:
    """Returns what each layer's last sublayer hands on."""
    return {place.rpartition("/")[0]: value for place, value in places.items()}


def _by_layer(
    results: Results,
    kind: str,
    what: str,
    join: Callable[[Places], Places],
    yscale: str = "linear",
):
    """Draws a row a warm-up, a column a measured step, for the deepest model."""
    study = results.study
    deepest = results.select(depth=max(study.depths, key=lambda depth: depth or 0))
    steps = sorted({step for r in deepest for step in getattr(r, kind)})
    if not steps:
        return None
    both = [r.variant.hparams for r in deepest]
    encoder = [f"encoder/layer_{i}" for i in range(max(each.encoder_layers for each in both))]
    decoder = [f"decoder/layer_{i}" for i in range(max(each.decoder_layers for each in both))]
    order = encoder + decoder
    figure, axes = _panels(study.warmups, steps, f"{what}, {len(order)} layers")
    for (i, j), each in np.ndenumerate(axes):
        here = [r for r in deepest if r.variant.warmup == study.warmups[i]]
        for name in study.names:
            known = [getattr(r, kind).get(steps[j]) for r in here if r.variant.name == name]
            at = join(mean_of([places for places in known if places]))
            line = [(x, at[place]) for x, place in enumerate(order) if place in at]
            if line:
                style = _style(results, name)
                each.plot(*zip(*line, strict=True), marker="o", markersize=3, lw=1, **style)
        setting = f"{here[0].variant.setting}, " if here and here[0].variant.setting else ""
        each.set(title=f"{setting}step {steps[j]:,}", xlabel="encoder, then decoder", ylabel=what)
        each.axvline(len(encoder) - 0.5, color="#888888", linestyle=":", linewidth=1)
        ticks = range(0, len(order), max(1, len(order) // 6))
        each.set_xticks(ticks, [order[tick].rpartition("_")[2] for tick in ticks])
        each.set_yscale(yscale)
    return _with_legend(figure, axes)
