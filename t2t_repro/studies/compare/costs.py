"""What each variant's quality costs: dev loss against time and against FLOPs.

A step's time is the median over a run's reports; its FLOPs are counted (models/flops.py) on the
batches that the run begins with. *At equal time* is when the quickest of a setting has ended, at
equal FLOPs likewise; the loss there is on a line between two evaluations.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from t2t_repro.studies.compare.cell_result import CellResult
from t2t_repro.studies.compare.grid import setting_in_words
from t2t_repro.studies.compare.pictures import legend, style
from t2t_repro.studies.compare.results import Results
from t2t_repro.studies.tables import Table, columns
from t2t_repro.views import pictures

PICTURE = "quality.png"
CAPTION = (
    "Dev loss against the time of training, without evaluations, and against its floating-point "
    "operations: each seed a line, with a mark at each evaluation."
)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one variant took in one setting: means over its seeds.

    `loss_by` is its dev loss when the others of the setting had spent as much: {"time": ...,
    "FLOPs": ...}, None where it was not evaluated by then. It is the mean over the `seeds` with
    which all variants of the setting came to their end. FLOPs that are not known are nan.
    """

    depth: int | None
    warmup: int | None
    name: str
    parameters: int
    step_flop: float
    step_seconds: float
    steps: int
    loss_by: dict[str, float | None]
    seeds: int

    @property
    def spent(self) -> dict[str, float]:
        """The hours and the FLOPs of a whole run."""
        return {"time": self.steps * self.step_seconds / 3600, "FLOPs": self.steps * self.step_flop}


_PER_STEP: dict[str, Callable[[CellResult], float]] = {
    "time": lambda result: result.step_seconds,
    "FLOPs": lambda result: np.nan if result.step_flop is None else result.step_flop,
}


def costs(results: Results) -> list[Cost]:
    """Returns the cost of each variant in each setting that has cells which came to their end."""
    found = []
    for depth, warmup in results.grid.settings():
        sides = {
            name: [
                r
                for r in results.of(depth=depth, warmup=warmup, variant=name)
                if r.diverged_at is None and r.dev and r.tokens_per_second
            ]
            for name in results.grid.names
        }
        sides = {name: cells for name, cells in sides.items() if cells}
        of_each = ({r.cell.seed for r in cells} for cells in sides.values())
        shared = set.intersection(*of_each) if sides else set()
        steps = results.grid.train_steps
        least = {
            what: _least(steps * _mean(map(of, cells)) for cells in sides.values())
            for what, of in _PER_STEP.items()
        }
        for name, cells in sides.items():
            compared = [r for r in cells if r.cell.seed in shared]
            losses = {
                what: [_loss_at(r.dev, least[what] / of(r)) for r in compared]
                for what, of in _PER_STEP.items()
            }
            found.append(
                Cost(
                    *(depth, warmup, name, cells[0].parameters),
                    _mean(map(_PER_STEP["FLOPs"], cells)),
                    _mean(r.step_seconds for r in cells),
                    steps,
                    {what: _mean_or_none(of_each) for what, of_each in losses.items()},
                    len(compared),
                )
            )
    return found


def sentences(found: Sequence[Cost], asked: int) -> list[str]:
    """Returns whose dev loss is the lowest at equal time and at equal FLOPs, a setting a line.

    Args:
        found: what `costs` returns.
        asked: how many seeds there should be.
    """
    said = []
    for setting in dict.fromkeys((cost.depth, cost.warmup) for cost in found):
        here = [cost for cost in found if (cost.depth, cost.warmup) == setting]
        parts = []
        for what, form in (("time", "{:.2g} hours"), ("FLOPs", "{:.2g}")):
            known = [(loss, cost.name) for cost in here if (loss := cost.loss_by[what]) is not None]
            if len(known) < 2:
                continue
            (loss, name), *others = sorted(known)
            rest = ", ".join(f"{other} {value:.3f}" for value, other in others)
            least = form.format(_least(cost.spent[what] for cost in here))
            parts.append(f"at equal {what} ({least}) that of {name}, {loss:.3f} ({rest})")
        if parts:
            where = setting_in_words(*setting)
            head = f"Of {where} the" if where else "The"
            seeds = f"{here[0].seeds} seed{'s' * (here[0].seeds > 1)}"
            if here[0].seeds < asked:
                seeds += ", those with which all came to their end"
            said.append(f"{head} lowest dev loss is {', '.join(parts)}: means over {seeds}.")
    return said


def table(found: Sequence[Cost]) -> Table:
    """Returns what each variant took."""
    rows = [
        (
            *(cost.depth, cost.warmup, cost.name, cost.parameters),
            *(_or_empty(cost.step_flop / 1e9), 1000 * cost.step_seconds),
            *(cost.spent["time"], _or_empty(cost.spent["FLOPs"] / 1e15)),
            *(cost.loss_by["time"], cost.loss_by["FLOPs"], cost.seeds),
        )
        for cost in found
    ]
    return Table(
        "costs",
        "What they cost",
        columns(
            "depth | warm-up :, | of | parameters :, | GFLOP a step :,.1f | ms a step :,.0f | "
            "hours :,.2f | PFLOP :,.3f | dev loss at equal time :.3f | at equal FLOPs :.3f | seeds"
        ),
        rows,
        (
            "Of a whole run, without evaluations. At equal time: when the quickest of the setting "
            "had ended; at equal FLOPs: when the one that needs the fewest had; by the curves of "
            "dev loss, empty before the first evaluation; means over the seeds, so many as are "
            "listed, with which all of the setting came to their end. Times depend on what else "
            "the machine did; FLOPs are those of matrix products, of all devices, "
            "and empty of a model of your own.",
        ),
    )


def draw(results: Results):
    """Returns the picture, a row a setting that has results."""
    settings = [s for s in results.grid.settings() if results.of(depth=s[0], warmup=s[1])]
    figure, axes = pictures.figure(2, len(settings), title="Dev loss against its cost", height=3.2)
    for (depth, warmup), pair in zip(settings, np.reshape(axes, (-1, 2)), strict=True):
        units = (("time", 3600.0, "hours of training"), ("FLOPs", 1e15, "PFLOP"))
        for each, (what, unit, label) in zip(pair, units, strict=True):
            for name in results.grid.names:
                own = style(results.grid, name)
                for result in results.of(depth=depth, warmup=warmup, variant=name):
                    if result.dev and result.tokens_per_second:
                        steps, losses = zip(*result.dev, strict=True)
                        spent = np.array(steps) * _PER_STEP[what](result) / unit
                        each.plot(spent, losses, marker="o", markersize=3, **own)
                        own.pop("label", None)
            each.set(xlabel=label, ylabel="dev loss, nats")
            if what == "FLOPs":
                each.set_xscale("log")
                pictures.logarithmic_ticks(each.xaxis, (1.0, 2.0, 5.0))
            each.set_title(setting_in_words(depth, warmup))
            legend(each)
    return figure


def _loss_at(curve: Sequence[tuple[int, float]], step: float) -> float | None:
    steps, losses = zip(*curve, strict=True)
    return float(np.interp(step, steps, losses)) if step >= steps[0] else None


def _mean(values) -> float:
    return float(np.mean(list(values)))


def _least(values) -> float:
    """Returns the least of those that are known."""
    return min((value for value in values if not np.isnan(value)), default=np.nan)


def _or_empty(value: float) -> float | None:
    return None if np.isnan(value) else value


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known and len(known) == len(values) else None
