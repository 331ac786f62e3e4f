"""What the cells of a comparison ended with, and what their numbers support.

* A cell *diverged* if a step's loss or gradients were not finite, which ends the run, or if the
  mean of the last tenth of its reported training losses is above the loss before the first step.
* It ended *at word frequencies* if its dev loss is not below that of a model that knows nothing
  else: it may have failed, or may need more steps.
* Two variants are compared seed by seed; the interval of their difference is Student's t over the
  seeds. One is *better* if the interval leaves zero out.
"""

import dataclasses
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro import schema
from t2t_repro.errors import UserError, changes
from t2t_repro.run_directory import RunDirectory
from t2t_repro.study.engine import half_interval
from t2t_repro.study.variants import Cell, Grid

CELLS = "cells"  # the folder of the runs
RESULT_FILE = "cell.json"  # in a run directory; written last
NOT_FINITE, DIVERGED = "not finite", "diverged"
FREQUENCIES, LEARNED = "at word frequencies", "learned"

Curve = list[tuple[int, float]]
Places = dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a finished cell holds.

    Attributes:
        cell: which one.
        hparams: its configuration.
        stopped_at: the step that was not finite; None: all steps were made.
        train, dev: [(step, loss)] as the run reported them.
        initial_loss: of training, before the first step.
        dev_loss, accuracy: of all dev tokens at the end, each given those before it; None: no end.
        unigram_loss: the dev loss of word frequencies alone; None: no end.
        bleu: of translations of dev sentences; None: there are none.
        hypotheses, references: dev translations at the end; None: none.
        tokens_per_second: the median over the reports.
        parameters: of the model.
        gradients, activations: {step: {place: value}}.
    """

    cell: Cell
    hparams: dict[str, Any]
    stopped_at: int | None
    train: Curve
    dev: Curve
    initial_loss: float | None
    dev_loss: float | None
    accuracy: float | None
    unigram_loss: float | None
    hypotheses: list[str] | None
    references: list[str] | None
    tokens_per_second: float
    parameters: int
    gradients: dict[int, Places]
    activations: dict[int, Places]
    bleu: float | None = None

    @property
    def status(self) -> str:
        """One of the four words above, by the rules of this module."""
        if self.stopped_at is not None:
            return NOT_FINITE
        last = [loss for _, loss in self.train[-max(1, len(self.train) // 10) :]]
        if last and self.initial_loss is not None and statistics.fmean(last) > self.initial_loss:
            return DIVERGED
        if self.dev_loss is not None and not self.dev_loss < (self.unigram_loss or np.inf):
            return FREQUENCIES
        return LEARNED

    @property
    def ended(self) -> bool:
        """Whether it came to its end, and did not diverge."""
        return self.dev_loss is not None and self.status not in (NOT_FINITE, DIVERGED)

    def ending(self) -> str:
        """Returns how it ended, in words."""
        if self.stopped_at is not None:
            return f"{NOT_FINITE} at step {self.stopped_at}"
        return f"dev loss {self.dev_loss:.3f}, {self.status}"


@dataclasses.dataclass(frozen=True)
class Difference:
    """Two variants by one measure, over the seeds of both: the means, first less second, and half
    of its 95 % interval (None: one seed); `better` is 0 for the first, 1, or None."""

    first: float
    second: float
    seeds: int
    half: float | None
    better: int | None

    @property
    def mean(self) -> float:
        """The first less the second."""
        return self.first - self.second

    def in_words(self, form: str) -> str:
        """Returns "2.101 and 2.152 (difference -0.051 ± 0.009)"."""
        half = "" if self.half is None else f" ± {self.half:{form}}"
        return (
            f"{self.first:{form}} and {self.second:{form}} (difference {self.mean:+{form}}{half})"
        )


def compare(
    first: Sequence[CellResult], second: Sequence[CellResult], measure: str
) -> Difference | None:
    """Compares cells that came to their end by "dev_loss" or "bleu"; None: no seed is of both."""
    ones, others = (
        {r.cell.seed: getattr(r, measure) for r in side if getattr(r, measure) is not None}
        for side in (first, second)
    )
    seeds = sorted(ones.keys() & others.keys())
    if not seeds:
        return None
    each = [ones[seed] - others[seed] for seed in seeds]
    mean, half = statistics.fmean(each), half_interval(each)
    better = None
    if half is not None and abs(mean) > half:
        better = int((mean > 0) == (measure == "dev_loss"))
    first_mean, second_mean = (statistics.fmean(s[seed] for seed in seeds) for s in (ones, others))
    return Difference(first_mean, second_mean, len(seeds), half, better)


@dataclasses.dataclass(frozen=True)
class Results:
    """What the finished cells of a grid hold."""

    grid: Grid
    by_cell: Mapping[Cell, CellResult]

    def of(self, **wanted: Any) -> list[CellResult]:
        """Returns the results of the cells whose attributes have these values."""
        return [
            result
            for cell, result in self.by_cell.items()
            if all(getattr(cell, name) == value for name, value in wanted.items())
        ]

    def p_values(self) -> tuple[dict[Cell, float], str]:
        """Returns how likely each cell's BLEU would seem as different from the first variant's by
        chance, by sacrebleu's paired bootstrap, and its signature."""
        from t2t_repro.scoring.significance import paired_bootstrap

        found: dict[Cell, float] = {}
        signature = ""
        for depth, warmup in self.grid.settings():
            for seed in range(self.grid.seeds):
                cells = self.of(depth=depth, warmup=warmup, seed=seed)
                cells = [r for r in cells if r.hypotheses and r.references]
                if len(cells) > 1 and cells[0].cell.variant == self.grid.names[0]:
                    texts = [r.hypotheses or [] for r in cells]
                    tested, signature = paired_bootstrap(texts, cells[0].references or [])
                    pairs = zip(cells[1:], tested[1:], strict=True)
                    found |= {r.cell: t.p_value for r, t in pairs if t.p_value is not None}
        return found, signature


def run_of(output_dir: pathlib.Path, grid: Grid, cell: Cell) -> RunDirectory:
    """Returns the run directory of a cell."""
    return RunDirectory(output_dir / CELLS / grid.folder(cell))


def is_finished(output_dir: pathlib.Path, grid: Grid, cell: Cell) -> bool:
    """Whether a cell has its result."""
    return (run_of(output_dir, grid, cell).path / RESULT_FILE).is_file()


def load(grid: Grid, output_dir: pathlib.Path) -> Results:
    """Returns the results of the finished cells; raises as `load_cell`."""
    finished = (cell for cell in grid.cells() if is_finished(output_dir, grid, cell))
    return Results(grid, {cell: load_cell(output_dir, grid, cell) for cell in finished})


def load_cell(output_dir: pathlib.Path, grid: Grid, cell: Cell) -> CellResult:
    """Returns the result of a finished cell.

    Raises:
        UserError: if it was trained with other hparams, as where a set has changed since.
    """
    from t2t_repro.scoring.bleu import SacreBleu

    run = run_of(output_dir, grid, cell)
    values = schema.read(run.path / RESULT_FILE, dict[str, Any])
    if differs := changes(values["hparams"], dataclasses.asdict(grid.hparams_of(cell))):
        raise UserError(
            f"Expected the hparams that {run.path} was trained with. Received: "
            f"{'; '.join(differs)}. Remove that folder, and the same command makes it anew."
        )
    rows = run.read_metrics()
    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    train, dev = (
        [(row["step"], float(row["loss"])) for row in rows if row.get("kind") == kind]
        for kind in ("train", "eval")
    )
    for name in ("gradients", "activations"):
        values[name] = {int(step): places for step, places in values[name].items()}
    result = CellResult(
        **{**values, "cell": cell},
        train=train,
        dev=dev,
        tokens_per_second=float(np.median(rates)) if rates else 0.0,
    )
    if not result.hypotheses:
        return result
    bleu = SacreBleu(result.references or []).score(result.hypotheses)
    return dataclasses.replace(result, bleu=bleu)
