"""The pictures of t2t-compare. A colour is a variant."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.studies.compare import norms
from t2t_repro.studies.compare.cell_result import CellResult, Curve, Places
from t2t_repro.studies.compare.grid import Cell, Grid, setting_in_words
from t2t_repro.studies.compare.results import Results
from t2t_repro.views import pictures

_MARKERS = {"self_attention": "o", "encdec_attention": "s", "ffn": "^"}
_STACKS = ("encoder", "decoder")
_LONG = 44  # characters of a label that would cover a picture
_SMOOTHED = 20  # a point of the training loss is the mean of this share of the reports around it

_MEASURED = {  # in a result: title, and axis
    "gradients": ("Gradient norms", "gradient norm"),
    "activations": ("Activations", "root mean square"),
}


def draw(results: Results, folder: pathlib.Path) -> dict[str, str]:
    """Writes every picture that there are numbers for.

    Returns:
        {file name: what it shows}, in the order of the report.
    """
    drawn = {
        "training-loss.png": (
            _losses(results, "Training loss, a moving mean", lambda r: smoothed(r.train)),
            "Training loss against steps, a moving mean over a twentieth of the run. It has "
            "dropout and label smoothing, and T2T takes off the least that smoothing allows. The "
            "line is the mean of the seeds, the band runs from the lowest to the highest; a cross "
            "ends a run that was not finite. Dotted: the loss before the first step.",
        ),
        "dev-loss.png": (
            _losses(results, "Dev loss", lambda r: r.dev, marker="o"),
            "Dev loss against steps, mean and range of the seeds, on the batches of --eval_steps, "
            "or on all where batches of different sizes would be of other sentences. "
            "Dotted: a model that knows word frequencies alone.",
        ),
        "final-dev-loss.png": (
            _final(results),
            "Dev loss at the end, on the whole dev split, against the warm-up: each seed a mark, a "
            "line through their means; a cross at the bottom where a seed did not come to its end.",
        ),
        "gradients-initial.png": (
            _by_sublayer(results, "gradients"),
            "Norm of the gradient of each sublayer's matrices before the first step, mean of the "
            "seeds, on a logarithmic axis. The first layer is 0.",
        ),
        "gradients-by-depth.png": (
            _by_depth(results),
            "The same for the feed-forward sublayer of the last layers, against depth. Dashed: the "
            "first point times the inverse root of the depth (Xiong et al. 2020).",
        ),
        "gradients-training.png": (
            _in_training(results, "gradients"),
            "Norm of the gradient of each layer of the deepest model, mean of the seeds: before "
            "the first step, and at checkpoints on the way. From left to right: the encoder's "
            "layers, then the decoder's.",
        ),
        "activations.png": (
            _by_sublayer(results, "activations"),
            "Root mean square of what each sublayer hands on, before the first step, mean of the "
            "seeds.",
        ),
        "activations-training.png": (
            _in_training(results, "activations"),
            "The same for the last sublayer of each layer of the deepest model, on the way.",
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


def by_step(curves: Iterable[Curve]) -> dict[int, list[float]]:
    """Returns {step: the values of the curves that have it}, sorted."""
    at: dict[int, list[float]] = {}
    for curve in curves:
        for step, value in curve:
            at.setdefault(step, []).append(value)
    return dict(sorted(at.items()))


def style(grid: Grid, name: str) -> dict[str, Any]:
    """Returns colour and label of a variant."""
    color = pictures.COLORS[grid.names.index(name) % len(pictures.COLORS)]
    label = grid.variant(name).described
    if len(label) > _LONG:
        label = label.replace("[", "\n[", 1)  # what differs from the set
    return {"color": color, "label": label}


def legend(axes: Any, fontsize: int = 8) -> None:
    """Says what the lines are, within the axes; once below the figure where labels are long."""
    handles, labels = axes.get_legend_handles_labels()
    figure = axes.figure
    if labels and max(map(len, labels)) <= _LONG:
        axes.legend(fontsize=fontsize)
    elif labels and not figure.legends:
        lines = sum(label.count("\n") + 1 for label in labels)
        figure.set_figheight(figure.get_figheight() + 0.2 * lines)
        figure.legend(handles, labels, loc="outside lower center", fontsize=fontsize)


def _layers(grid: Grid, depth: int | None, name: str) -> dict[str, int]:
    """Returns how many layers each stack has."""
    hparams = grid.hparams_of(Cell(depth, grid.warmups[0], name, 0))
    return {"encoder": hparams.encoder_layers, "decoder": hparams.decoder_layers}


def _panels(rows: Sequence, columns: Sequence, title: str, width=3.6, height=2.8):
    """Returns a figure and its axes, (rows, columns)."""
    figure, axes = pictures.figure(len(columns), len(rows), title=title, width=width, height=height)
    return figure, np.atleast_1d(axes).reshape(len(rows), len(columns))


def _losses(results: Results, title: str, curve: Callable[[CellResult], Curve], marker=""):
    grid = results.grid
    figure, axes = _panels(grid.warmups, grid.depths, title)
    for (i, j), each in np.ndenumerate(axes):
        setting = {"depth": grid.depths[j], "warmup": grid.warmups[i]}
        each.set(title=setting_in_words(grid.depths[j], grid.warmups[i]))
        each.set(xlabel="step", ylabel="loss, nats")
        for name in grid.names:
            cells = results.of(**setting, variant=name)
            own_style = style(grid, name)
            if of_each := by_step(map(curve, cells)):
                values = list(of_each.values())
                pictures.band(each, list(of_each), values, marker=marker, markersize=3, **own_style)
            for result in cells:
                if result.stopped_at is not None and (own := curve(result)):
                    each.plot(*own[-1], color=own_style["color"], marker="x", markersize=8)
        here = results.of(**setting)
        known = [r.unigram_loss if marker else r.initial_loss for r in here]
        if levels := [level for level in known if level is not None]:
            each.axhline(float(np.mean(levels)), color="#888888", linestyle=":", linewidth=1)
    legend(axes[0, 0])
    for row in axes:
        _share_scale(row)
    return figure


def _share_scale(axes: Iterable, logarithmic: bool = False) -> None:
    """Gives axes one vertical scale, so that what they show can be compared."""
    axes = list(axes)
    drawn = [each.dataLim for each in axes if np.isfinite(each.dataLim.get_points()).all()]
    low, high = min((d.y0 for d in drawn), default=1.0), max((d.y1 for d in drawn), default=1.0)
    for each in axes:
        if logarithmic and low > 0:
            each.set_yscale("log")
            each.set_ylim(low / 1.2, high * 1.2)
            within = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
            pictures.logarithmic_ticks(each.yaxis, within)
        else:
            margin = 0.05 * (high - low) or 0.05
            each.set_ylim(low - margin, high + margin)


def _final(results: Results):
    grid = results.grid
    figure, ((*axes,),) = _panels([None], grid.depths, "Dev loss at the end", height=3.0)
    ends = {c: r.dev_loss for c, r in results.by_cell.items() if r.dev_loss is not None}
    for each, depth in zip(axes, grid.depths, strict=True):
        against_warmup(each, grid, depth, ends)
        each.set(title=setting_in_words(depth, None), ylabel="loss of a dev token, nats")
    _share_scale(axes)
    return figure


def against_warmup(axes: Any, grid: Grid, depth: int | None, values: Mapping[Cell, float]) -> None:
    """Draws values against the warm-up: each seed a mark, a line through their means.

    Where a seed has no value, there is a cross at the bottom.
    """
    places = range(len(grid.warmups))  # 0 has no place on a logarithmic axis
    for name in grid.names:
        own_style, means = style(grid, name), []
        for place, warmup in zip(places, grid.warmups, strict=True):
            cells = [Cell(depth, warmup, name, seed) for seed in range(grid.seeds)]
            ends = [values[cell] for cell in cells if cell in values]
            means.append(np.mean(ends) if ends else np.nan)
            axes.plot([place] * len(ends), ends, "o", color=own_style["color"], markersize=4)
            if len(ends) < len(cells):
                bottom = axes.get_xaxis_transform()
                axes.text(place, 0.01, "x", color=own_style["color"], ha="center", transform=bottom)
        axes.plot(places, means, **own_style)
    named = [f"{warmup:,}" if warmup is not None else "the set's" for warmup in grid.warmups]
    axes.set_xticks(places, named)
    axes.set_xlabel("warm-up, steps")
    legend(axes)


def _mean(of_cells: Sequence[Places]) -> Places:
    """Returns the mean at each place."""
    places = of_cells[0] if of_cells else {}
    return {place: float(np.mean([of[place] for of in of_cells])) for place in places}


def _by_sublayer(results: Results, kind: str):
    """Draws what was measured before the first step: a row a stack, a column a depth."""
    grid, (title, what) = results.grid, _MEASURED[kind]
    figure, axes = _panels(_STACKS, grid.depths, f"{title} before the first step")
    for (i, j), each in np.ndenumerate(axes):
        stack, depth = _STACKS[i], grid.depths[j]
        each.set(xlabel="layer", ylabel=what)
        each.set_title(", ".join(filter(None, [stack, setting_in_words(depth, None)])))
        for name in grid.names:
            layers = range(_layers(grid, depth, name)[stack])
            at_first = [getattr(r, kind).get(0) for r in results.of(depth=depth, variant=name)]
            values = _mean([places for places in at_first if places])
            for sublayer, marker in _MARKERS.items():
                mine = [values.get(f"{stack}/layer_{i}/{sublayer}") for i in layers]
                if None not in mine:
                    own_style = style(grid, name)
                    own_style["label"] += f" {sublayer}"
                    each.plot(layers, mine, marker=marker, markersize=4, lw=1, **own_style)
        each.set_xticks(_ticks(max(_layers(grid, depth, name)[stack] for name in grid.names), 6))
    if not any(each.lines for each in axes.flat):
        return None
    _share_scale(axes.flat, logarithmic=kind == "gradients")
    legend(axes[1, 0], 6)
    return figure


def _ticks(layers: int, count: int) -> range:
    return range(0, layers, max(1, layers // count))


def last_gradients(results: Results, stack: str, name: str) -> list[tuple[int | None, float]]:
    """Returns (depth, gradient norm of a stack's last feed-forward sublayer before the first step).

    The mean over all cells of the depth.
    """
    points = []
    for depth in results.grid.depths:
        cells = results.of(depth=depth, variant=name)
        if mean := _mean([r.gradients[0] for r in cells if r.gradients]):
            last = _layers(results.grid, depth, name)[stack] - 1
            points.append((depth, mean[f"{stack}/layer_{last}/ffn"]))
    return sorted(points, key=lambda point: point[0] or 0)


def _by_depth(results: Results):
    grid = results.grid
    if len(grid.depths) < 2:
        return None
    title = "Gradient norm of the last layer before the first step"
    figure, axes = pictures.figure(2, title=title, width=4.0, height=3.0)
    for stack, each in zip(_STACKS, axes, strict=True):
        for name in grid.names:
            if points := last_gradients(results, stack, name):
                depths, values = np.array(points).T
                own_style = style(grid, name)
                each.plot(depths, values, marker="o", **own_style)
                expected = values[0] * np.sqrt(depths[0] / depths)
                each.plot(depths, expected, "--", color=own_style["color"], linewidth=0.8)
        each.set(xscale="log", title=stack, xlabel="depth, layers", ylabel="gradient norm")
        pictures.ticks(each, sorted(filter(None, grid.depths)))
        legend(each)
    _share_scale(axes, logarithmic=True)
    return figure


def _in_training(results: Results, kind: str):
    """Draws a row a warm-up, a column a measured step, for the deepest model."""
    grid, (title, what) = results.grid, _MEASURED[kind]
    depth = max(grid.depths, key=lambda depth: depth or 0)
    steps = sorted({step for r in results.of(depth=depth) for step in getattr(r, kind)})
    if not steps:
        return None
    of_each = {name: _layers(grid, depth, name) for name in grid.names}
    most = {stack: max(layers[stack] for layers in of_each.values()) for stack in _STACKS}
    title += f" of {most['encoder']} + {most['decoder']} layers in training"
    figure, axes = _panels(grid.warmups, steps, title, width=3.2, height=2.6)
    for (i, j), each in np.ndenumerate(axes):
        warmup, step = grid.warmups[i], steps[j]
        at = [setting_in_words(None, warmup), f"step {step:,}"]
        each.set(title=", ".join(filter(None, at)), ylabel=what)
        each.set_xlabel("encoder's, then decoder's layers")
        for name in grid.names:
            cells = results.of(depth=depth, warmup=warmup, variant=name)
            values = _mean([getattr(r, kind)[step] for r in cells if step in getattr(r, kind)])
            if kind == "gradients":
                layers = norms.by_layer(values)
            else:  # behind the last sublayer
                layers = {place.rpartition("/")[0]: v for place, v in values.items()}
            places = {f"encoder/layer_{i}": i for i in range(most["encoder"])}
            places |= {f"decoder/layer_{i}": len(places) + i for i in range(most["decoder"])}
            if line := {x: layers[place] for place, x in places.items() if place in layers}:
                x, y = list(line), list(line.values())
                each.plot(x, y, marker="o", markersize=3, lw=1, **style(grid, name))
        each.axvline(most["encoder"] - 0.5, color="#888888", linestyle=":", linewidth=1)
        named = [_ticks(most[stack], 3) for stack in _STACKS]  # in both stacks from 0
        shifted = [most["encoder"] + layer for layer in named[1]]
        each.set_xticks([*named[0], *shifted], [*named[0], *named[1]])
    for row in axes:
        _share_scale(row, logarithmic=kind == "gradients")
    legend(axes[0, 0])
    return figure
