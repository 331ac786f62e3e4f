"""The pictures of t2t-compare. A colour is a pair of sequences."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from t2t_repro.studies.compare import grid, norms
from t2t_repro.studies.compare.grid import Cell, Plan
from t2t_repro.studies.compare.results import Curve, Places, Result
from t2t_repro.views import pictures

_MARKERS = {"self_attention": "o", "encdec_attention": "s", "ffn": "^"}
_STACKS = ("encoder", "decoder")
_SMOOTHED = 20  # a point of the training loss is the mean of this share of the reports around it

Results = dict[Cell, Result]


def draw(plan: Plan, results: Results, folder: pathlib.Path) -> dict[str, str]:
    """Writes every picture that there are numbers for.

    Returns:
        {file name: what it shows}, in the order of the report.
    """
    drawn = {
        "training-loss.png": (
            _losses(plan, results, "Training loss, a moving mean", lambda r: smoothed(r.train)),
            "Training loss against steps, a moving mean over a twentieth of the run. It has "
            "dropout and label smoothing, and T2T takes off the least that smoothing allows. The "
            "line is the mean of the seeds, the band runs from the lowest to the highest; a cross "
            "ends a run that was not finite. Dotted: the loss before the first step.",
        ),
        "dev-loss.png": (
            _losses(plan, results, "Dev loss", lambda r: r.dev, marker="o"),
            "Dev loss against steps, mean and range of the seeds, on the batches of --eval_steps. "
            "Dotted: a model that knows word frequencies alone.",
        ),
        "final-dev-loss.png": (
            _final(plan, results),
            "Dev loss at the end, on the whole dev split, against the warm-up: each seed a mark, a "
            "line through their means; a cross at the bottom where a seed did not come to its end.",
        ),
        "gradients-initial.png": (
            _by_sublayer(plan, results, "gradients"),
            "Norm of the gradient of each sublayer's matrices before the first step, mean of the "
            "seeds, on a logarithmic axis. The first layer is 0.",
        ),
        "gradients-by-depth.png": (
            _by_depth(plan, results),
            "The same for the feed-forward sublayer of the last layers, against depth. Dashed: the "
            "first point times the inverse root of the depth (Xiong et al. 2020).",
        ),
        "gradients-training.png": (
            _in_training(plan, results),
            "Norm of the gradient of each layer of the deepest model, mean of the seeds: before "
            "the first step, and at checkpoints on the way. From left to right: the encoder's "
            "layers, then the decoder's.",
        ),
        "activations.png": (
            _by_sublayer(plan, results, "activations"),
            "Root mean square of what each sublayer hands on, before the first step, mean of the "
            "seeds.",
        ),
        "activations-training.png": (
            _in_training(plan, results, "activations"),
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


def _of(results: Results, **wanted) -> list[Result]:
    """Returns the results of the cells whose attributes have these values."""
    return [
        result
        for cell, result in results.items()
        if all(getattr(cell, name) == value for name, value in wanted.items())
    ]


def _color(plan: Plan, sequences: str) -> str:
    return pictures.COLORS[plan.sequences.index(sequences) % len(pictures.COLORS)]


def _losses(plan: Plan, results: Results, title: str, curve: Callable[[Result], Curve], marker=""):
    figure, axes = pictures.figure(
        len(plan.depths), len(plan.warmups), title=title, width=3.6, height=2.8
    )
    axes = np.atleast_1d(axes).reshape(len(plan.warmups), len(plan.depths))
    for row, warmup in zip(axes, plan.warmups, strict=True):
        for each, depth in zip(row, plan.depths, strict=True):
            each.set_title(f"depth {depth}, warm-up {warmup:,}")
            each.set_xlabel("step")
            each.set_ylabel("loss")
            for name in plan.sequences:
                found = _of(results, depth=depth, warmup=warmup, sequences=name)
                of_each = by_step(map(curve, found))
                if not of_each:
                    continue
                color = _color(plan, name)
                style = {"color": color, "marker": marker, "markersize": 3}
                label = grid.in_words(name)
                pictures.band(each, list(of_each), list(of_each.values()), label=label, **style)
                for result in found:
                    own = curve(result)
                    if result.stopped_at is not None and own:
                        each.plot(*own[-1], color=color, marker="x", markersize=8)
            here = _of(results, depth=depth, warmup=warmup)
            known = [r.unigram_loss if marker else r.initial_loss for r in here]
            levels = [level for level in known if level is not None]
            if levels:
                each.axhline(float(np.mean(levels)), color="#888888", linestyle=":", linewidth=1)
    axes[0, 0].legend(fontsize=8)
    for row in axes:
        _share_scale(row)
    return figure


def _share_scale(axes, logarithmic: bool = False) -> None:
    """Gives axes one vertical scale, so that what they show can be compared."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes = list(axes)
    lines = [np.asarray(line.get_ydata()) for each in axes for line in each.lines]
    values = np.concatenate([*lines, []])
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.array([1.0])
    low, high = float(np.min(values)), float(np.max(values))
    for each in axes:
        if logarithmic and low > 0:
            each.set_yscale("log")
            each.set_ylim(low / 1.2, high * 1.2)
            within = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
            each.yaxis.set_major_locator(LogLocator(subs=within))
            each.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            each.yaxis.set_minor_formatter(NullFormatter())
        else:
            margin = 0.05 * (high - low) or 0.05
            each.set_ylim(low - margin, high + margin)


def _final(plan: Plan, results: Results):
    figure, axes = pictures.figure(
        len(plan.depths), title="Dev loss at the end", width=3.6, height=3.0
    )
    ends = {cell: r.dev_loss for cell, r in results.items() if r.dev_loss is not None}
    for each, depth in zip(np.atleast_1d(axes), plan.depths, strict=True):
        against_warmup(each, plan, depth, ends)
        each.set(title=f"depth {depth}", ylabel="loss of a dev token, nats")
    _share_scale(np.atleast_1d(axes))
    return figure


def against_warmup(axes, plan: Plan, depth: int, values: Mapping[Cell, float]) -> None:
    """Draws values against the warm-up: each seed a mark, a line through their means.

    Where a seed has no value, there is a cross at the bottom.
    """
    places = range(len(plan.warmups))  # 0 has no place on a logarithmic axis
    for name in plan.sequences:
        color, means = _color(plan, name), []
        for place, warmup in zip(places, plan.warmups, strict=True):
            cells = [Cell(depth, warmup, name, seed) for seed in range(plan.seeds)]
            ends = [values[cell] for cell in cells if cell in values]
            means.append(np.mean(ends) if ends else np.nan)
            axes.plot([place] * len(ends), ends, "o", color=color, markersize=4)
            if len(ends) < len(cells):
                bottom = axes.get_xaxis_transform()
                axes.text(place, 0.01, "x", color=color, ha="center", transform=bottom)
        axes.plot(places, means, color=color, label=grid.in_words(name))
    axes.set_xticks(places, [f"{warmup:,}" for warmup in plan.warmups])
    axes.set_xlabel("warm-up, steps")
    axes.legend(fontsize=8)


def _mean(found: Sequence[Places]) -> Places:
    """Returns the mean at each place."""
    return {place: float(np.mean([f[place] for f in found])) for place in found[0]} if found else {}


def _by_sublayer(plan: Plan, results: Results, kind: str):
    """Draws what was measured before the first step: a row a stack, a column a depth."""
    what = {"gradients": "gradient norm", "activations": "root mean square"}[kind]
    title = {"gradients": "Gradient norms", "activations": "Activations"}[kind]
    title += " before the first step"
    figure, axes = pictures.figure(len(plan.depths), 2, title=title, width=3.6, height=2.8)
    axes = np.atleast_1d(axes).reshape(2, len(plan.depths))
    for stack, row in zip(_STACKS, axes, strict=True):
        for depth, each in zip(plan.depths, row, strict=True):
            each.set_title(f"{stack}, depth {depth}")
            each.set_xlabel("layer")
            each.set_ylabel(what)
            for name in plan.sequences:
                found = _of(results, depth=depth, sequences=name)
                values = _mean([getattr(r, kind)[0] for r in found if 0 in getattr(r, kind)])
                for sublayer, marker in _MARKERS.items():
                    mine = [values.get(f"{stack}/layer_{i}/{sublayer}") for i in range(depth)]
                    if None not in mine:
                        label = f"{grid.in_words(name)} {sublayer}"
                        style = {"color": _color(plan, name), "marker": marker, "label": label}
                        each.plot(range(depth), mine, markersize=4, linewidth=1, **style)
            each.set_xticks(range(0, depth, max(1, depth // 6)))
    if not any(each.lines for each in axes.flat):
        return None
    _share_scale(axes.flat, logarithmic=kind == "gradients")
    axes[1, 0].legend(fontsize=6)
    return figure


def last_gradients(plan: Plan, results: Results, stack: str, name: str) -> list[tuple[int, float]]:
    """Returns (depth, gradient norm of a stack's last feed-forward sublayer before the first step).

    The mean over all cells of the depth.
    """
    points = []
    for depth in plan.depths:
        found = [r.gradients[0] for r in _of(results, depth=depth, sequences=name) if r.gradients]
        if found:
            points.append((depth, _mean(found)[f"{stack}/layer_{depth - 1}/ffn"]))
    return sorted(points)


def _by_depth(plan: Plan, results: Results):
    if len(plan.depths) < 2:
        return None
    title = "Gradient norm of the last layer before the first step"
    figure, axes = pictures.figure(2, title=title, width=4.0, height=3.0)
    for stack, each in zip(_STACKS, axes, strict=True):
        for name in plan.sequences:
            points = np.array(last_gradients(plan, results, stack, name)).reshape(-1, 2).T
            if points.size:
                depths, values = points
                each.plot(
                    depths, values, marker="o", color=_color(plan, name), label=grid.in_words(name)
                )
                expected = values[0] * np.sqrt(depths[0] / depths)
                each.plot(depths, expected, "--", color=_color(plan, name), linewidth=0.8)
        each.set_xscale("log")
        pictures.ticks(each, sorted(plan.depths))
        each.set_title(stack)
        each.set_xlabel("depth")
        each.set_ylabel("gradient norm")
        each.legend(fontsize=8)
    _share_scale(axes, logarithmic=True)
    return figure


def _in_training(plan: Plan, results: Results, kind: str = "gradients"):
    """Draws a row a warm-up, a column a measured step, for the deepest model."""
    depth = max(plan.depths)
    cells = _of(results, depth=depth)
    steps = sorted({step for r in cells for step in getattr(r, kind)})
    if not steps:
        return None
    title = "Gradient norms" if kind == "gradients" else "Activations"
    title += f" of {depth} + {depth} layers in training"
    rows = len(plan.warmups)
    figure, axes = pictures.figure(len(steps), rows, title=title, width=3.2, height=2.6)
    axes = np.atleast_1d(axes).reshape(rows, len(steps))
    for warmup, row in zip(plan.warmups, axes, strict=True):
        for step, each in zip(steps, row, strict=True):
            each.set_title(f"warm-up {warmup:,}, step {step:,}")
            each.set_xlabel("encoder's, then decoder's layers")
            for name in plan.sequences:
                found = _of(results, depth=depth, warmup=warmup, sequences=name)
                mine = [getattr(r, kind)[step] for r in found if step in getattr(r, kind)]
                values = _mean(mine)
                if kind == "gradients":
                    layers = norms.by_layer(values)
                else:
                    layers = {place.rpartition("/")[0]: v for place, v in values.items()}
                line = [
                    layers[f"{stack}/layer_{i}"]
                    for stack in _STACKS
                    for i in range(depth)
                    if f"{stack}/layer_{i}" in layers
                ]
                if line:
                    style = {
                        "color": _color(plan, name),
                        "label": grid.in_words(name),
                        "marker": "o",
                    }
                    each.plot(range(len(line)), line, markersize=3, linewidth=1, **style)
    for row in axes:
        _share_scale(row, logarithmic=kind == "gradients")
        for each in row:
            each.axvline(depth - 0.5, color="#888888", linestyle=":", linewidth=1)
    axes[0, 0].legend(fontsize=8)
    return figure
