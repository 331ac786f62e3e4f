"""The pictures of t2t-compare. A colour is a variant, and each has one line in every picture."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t2t_repro.study import norms
from t2t_repro.study.results import CellResult, Curve, Places, Results
from t2t_repro.study.variants import Cell, Grid, setting_in_words
from t2t_repro.views import pictures

_STACKS = ("encoder", "decoder")
_LONG = 44  # characters of a label that would cover a picture
_SMOOTHED = 20  # a point of the training loss is the mean of this share of the reports around it


def draw(results: Results, folder: pathlib.Path) -> dict[str, str]:
    """Writes every picture that there are numbers for.

    Returns:
        {file name: what it shows}, in the order of the report.
    """
    drawn = {
        "dev-loss.png": (
            _losses(results, "Dev loss", lambda r: r.dev, "o"),
            "Dev loss against steps: mean of the seeds, and a band from the lowest to the highest. "
            "Dotted: a model that knows word frequencies alone.",
        ),
        "training-loss.png": (
            _losses(results, "Training loss", lambda r: smoothed(r.train)),
            "Training loss against steps, a moving mean over a twentieth of the run. Dotted: the "
            "loss before the first step. A cross ends a run that was not finite.",
        ),
        "gradients.png": (
            _by_layer(results, "gradients", "Gradient norm", norms.by_layer),
            "Norm of the gradient of each layer's matrices in the deepest model, mean of the "
            "seeds: before the first step, and at the first and last checkpoint.",
        ),
        "activations.png": (
            _by_layer(results, "activations", "Root mean square", _last_of_layer),
            "Root mean square of what each layer of the deepest model hands on, likewise.",
        ),
    }
    written = {}
    for name, (figure, caption) in drawn.items():
        if figure is not None:
            pictures.save(figure, folder / name)
            written[name] = caption
    return written


def smoothed(curve: Curve) -> Curve:
    """Returns a curve's moving mean over a twentieth of its points, of fewer at its ends."""
    values = np.array([value for _, value in curve])
    half = len(values) // _SMOOTHED // 2
    means = [values[max(0, i - half) : i + half + 1].mean() for i in range(len(values))]
    return [(step, float(mean)) for (step, _), mean in zip(curve, means, strict=True)]


def layers(grid: Grid, depth: int | None, name: str) -> dict[str, int]:
    """Returns how many layers each stack has."""
    hparams = grid.hparams_of(Cell(depth, grid.warmups[0], name, 0))
    return {"encoder": hparams.encoder_layers, "decoder": hparams.decoder_layers}


def mean_of(of_cells: Sequence[Places]) -> Places:
    """Returns the mean at each place."""
    places = of_cells[0] if of_cells else {}
    return {place: float(np.mean([of[place] for of in of_cells])) for place in places}


def _style(grid: Grid, name: str) -> dict[str, Any]:
    color = pictures.COLORS[grid.names.index(name) % len(pictures.COLORS)]
    return {"color": color, "label": name if len(name) <= _LONG else name.replace("[", "\n[", 1)}


def _legend(axes: Any) -> None:
    """Says what the lines are, within the axes; below the figure where labels are long."""
    handles, labels = axes.get_legend_handles_labels()
    if any("\n" in label for label in labels):
        axes.figure.legend(handles, labels, loc="outside lower center", fontsize=8)
    elif labels:
        axes.legend(fontsize=8)


def _panels(rows: Sequence, columns: Sequence, title: str):
    """Returns a figure and its axes, (rows, columns)."""
    figure, axes = pictures.figure(len(columns), len(rows), title=title, width=3.6, height=2.8)
    axes = np.atleast_1d(axes).reshape(len(rows), len(columns))
    for row in axes:
        for each in row[1:]:
            each.sharey(row[0])
    return figure, axes


def _losses(results: Results, title: str, curve: Callable[[CellResult], Curve], marker: str = ""):
    grid = results.grid
    figure, axes = _panels(grid.warmups, grid.depths, title)
    for (i, j), each in np.ndenumerate(axes):
        here = results.of(depth=grid.depths[j], warmup=grid.warmups[i])
        each.set(title=setting_in_words(grid.depths[j], grid.warmups[i]))
        each.set(xlabel="step", ylabel="loss, nats")
        for name in grid.names:
            at: dict[int, list[float]] = {}
            for result in (r for r in here if r.cell.variant == name):
                for step, value in curve(result):
                    at.setdefault(step, []).append(value)
                if result.stopped_at is not None and (own := curve(result)):
                    each.plot(*own[-1], color=_style(grid, name)["color"], marker="x", markersize=8)
            if at:
                steps, values = zip(*sorted(at.items()), strict=True)
                style = _style(grid, name)
                pictures.band(each, steps, values, marker=marker, markersize=3, **style)
        known = [r.unigram_loss if marker else r.initial_loss for r in here]
        if levels := [level for level in known if level is not None]:
            each.axhline(float(np.mean(levels)), color="#888888", linestyle=":", linewidth=1)
    _legend(axes[0, 0])
    return figure


def _last_of_layer(places: Places) -> Places:
    """Returns what each layer's last sublayer hands on."""
    return {place.rpartition("/")[0]: value for place, value in places.items()}


def _by_layer(results: Results, kind: str, what: str, join: Callable[[Places], Places]):
    """Draws a row a warm-up, a column a measured step, for the deepest model."""
    grid = results.grid
    depth = max(grid.depths, key=lambda depth: depth or 0)
    steps = sorted({step for r in results.of(depth=depth) for step in getattr(r, kind)})
    if not steps:
        return None
    counts = [layers(grid, depth, name) for name in grid.names]
    most = {stack: max(of[stack] for of in counts) for stack in _STACKS}
    order = [f"{stack}/layer_{i}" for stack in _STACKS for i in range(most[stack])]
    figure, axes = _panels(grid.warmups, steps, f"{what}, {len(order)} layers")
    for (i, j), each in np.ndenumerate(axes):
        for name in grid.names:
            cells = results.of(depth=depth, warmup=grid.warmups[i], variant=name)
            at = join(mean_of([v[steps[j]] for r in cells if steps[j] in (v := getattr(r, kind))]))
            line = [(x, at[place]) for x, place in enumerate(order) if place in at]
            if line:
                style = _style(grid, name)
                each.plot(*zip(*line, strict=True), marker="o", markersize=3, lw=1, **style)
        at_step = [setting_in_words(None, grid.warmups[i]), f"step {steps[j]:,}"]
        each.set(
            title=", ".join(filter(None, at_step)), xlabel="encoder, then decoder", ylabel=what
        )
        each.axvline(most["encoder"] - 0.5, color="#888888", linestyle=":", linewidth=1)
        ticks = range(0, len(order), max(1, len(order) // 6))
        each.set_xticks(ticks, [order[tick].rpartition("_")[2] for tick in ticks])
        if kind == "gradients":
            each.set_yscale("log")
    _legend(axes[0, 0])
    return figure
