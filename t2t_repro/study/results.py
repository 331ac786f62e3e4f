"""The results of a study's runs, and their comparison.

* A run *diverged* if a step's loss or gradients were not finite, which ends the run, or if the
  mean of the last tenth of its reported training losses is above the loss before the first step.
* It ended *at word frequencies* if its dev loss is not below that of a model that knows nothing
  else: it may have failed, or may need more steps.
* Two variants are compared seed by seed; the interval of their difference is Student's t over the
  seeds. One is *better* if the interval leaves zero out.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.stages import Record
from t2t_repro.study.study import Cell, Study, Variant

RECORD_FILE = "study.json"  # in a run directory: its stages, and what they found
TRAINING, MEASUREMENT = "training", "measurement"  # the stages
NOT_FINITE, DIVERGED = "not finite", "diverged"
FREQUENCIES, LEARNED = "at word frequencies", "learned"
MOST_SEEDS = 10
# Student's t at 97.5 %, by degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)

Curve = list[tuple[int, float]]
Places = dict[str, float]


def half_interval(values: Sequence[float]) -> float | None:
    """Returns half of the 95 % interval of a mean, by Student's t; None: of fewer than two."""
    if len(values) < 2:
        return None
    return _T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))


def mean_and_half(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Returns the mean of the known values, and half of its interval."""
    known = [value for value in values if value is not None]
    return (statistics.fmean(known), half_interval(known)) if known else (None, None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellResult:
    """The result of a finished run.

    Attributes:
        variant, seed: which run.
        stopped_at: the step that was not finite; None: all steps were made.
        train, dev: [(step, loss)] as the run reported them.
        initial_loss: of training, before the first step.
        dev_loss, accuracy: of all dev tokens at the end, each given those before it; None: no end.
        unigram_loss: the dev loss of word frequencies alone; None: no end.
        hypotheses, references: dev translations at the end; None: none.
        bleu: sacreBLEU of these; None: none.
        tokens_per_second: the median over the reports.
        parameters: of the model.
        gradients, activations: {step: {place: value}}.
    """

    variant: Variant
    seed: int
    stopped_at: int | None
    train: Curve
    dev: Curve
    initial_loss: float | None
    dev_loss: float | None
    accuracy: float | None
    unigram_loss: float | None
    hypotheses: list[str] | None
    references: list[str] | None
    bleu: float | None
    tokens_per_second: float
    parameters: int
    gradients: dict[int, Places]
    activations: dict[int, Places]

    @property
    def status(self) -> str:
        """One of the four words above, by the rules of this module."""
        if self.stopped_at is not None:
            return NOT_FINITE
        last = [loss for _, loss in self.train[-max(1, len(self.train) // 10) :]]
        if last and self.initial_loss is not None and statistics.fmean(last) > self.initial_loss:
            return DIVERGED
        if self.dev_loss is not None and not self.dev_loss < (self.unigram_loss or math.inf):
            return FREQUENCIES
        return LEARNED

    @property
    def ended(self) -> bool:
        """Whether it came to its end, and did not diverge."""
        return self.dev_loss is not None and self.status not in (NOT_FINITE, DIVERGED)

    @property
    def perplexity(self) -> float | None:
        """Of a token of dev, at the end."""
        return None if self.dev_loss is None else math.exp(min(self.dev_loss, 700.0))


@dataclasses.dataclass(frozen=True)
class Difference:
    """Two variants by one measure, over the seeds of both.

    Attributes:
        mean: of the first less the second.
        half: half of its 95 % interval; None: of one seed.
        seeds: how many.
        less_is_better: whether it is of a loss.
    """

    mean: float
    half: float | None
    seeds: int
    less_is_better: bool

    @property
    def better(self) -> int | None:
        """0: the first; 1: the second; None: the interval holds zero."""
        if self.half is None or abs(self.mean) <= self.half:
            return None
        return int((self.mean > 0) == self.less_is_better)


def compare(
    first: Sequence[CellResult], second: Sequence[CellResult], measure: str
) -> Difference | None:
    """Compares runs by "dev_loss", "perplexity" or "bleu"; None: no seed is of both."""
    ones, others = (
        {r.seed: value for r in side if (value := getattr(r, measure)) is not None}
        for side in (first, second)
    )
    found = [ones[seed] - others[seed] for seed in sorted(ones.keys() & others.keys())]
    if not found:
        return None
    return Difference(statistics.fmean(found), half_interval(found), len(found), measure != "bleu")


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of a study's finished runs."""

    study: Study
    cells: Sequence[CellResult]

    def select(self, **wanted: Any) -> list[CellResult]:
        """Returns the results of the variants whose attributes have these values."""
        return [
            result
            for result in self.cells
            if all(getattr(result.variant, name) == value for name, value in wanted.items())
        ]

    def p_values(self, cells: Sequence[CellResult], first: str) -> tuple[list[float], str]:
        """Returns the p-value of each run's BLEU against that of the variant `first` with the same
        seed and setting, by sacrebleu's paired bootstrap; and its signature."""
        from t2t_repro.scoring.significance import paired

        found, signature = [], ""
        for cell in cells:
            axes = {"depth": cell.variant.depth, "warmup": cell.variant.warmup}
            for other in self.select(name=first, **axes):
                if other.seed == cell.seed and other is not cell:
                    if other.hypotheses and cell.hypotheses and cell.references:
                        tested = paired(other.hypotheses, cell.hypotheses, cell.references)
                        found.append(tested.p_value)
                        signature = tested.signature
        return found, signature


def load(study: Study) -> Results:
    """Returns the results of the finished runs; raises as `load_cell`."""
    found = (load_cell(study, cell) for cell in study.cells())
    return Results(study, [result for result in found if result is not None])


def load_cell(study: Study, cell: Cell) -> CellResult | None:
    """Returns the result of a run; None: it is not finished.

    Raises:
        UserError: if the run was made with other settings, as where a set has changed since.
    """
    from t2t_repro.scoring.bleu import SacreBleu

    run = study.run_of(cell)
    file = run.path / RECORD_FILE
    record = schema.read(file, Record) if file.exists() else None
    if record is None or MEASUREMENT not in record.stages:
        return None
    wanted = {f"--{name}={value}" for name, value in study.begun_with(cell).items()}
    if differs := {flag.partition("=")[0] for flag in wanted ^ {*record.begun_with}}:
        raise UserError(
            f"Expected the settings that {run.path} was made with. Received: different "
            f"{', '.join(sorted(differs))}. Restore their values, or delete {run.path}."
        )
    values = dict(record.stages[MEASUREMENT].found)
    for name in ("gradients", "activations"):
        values[name] = {int(step): places for step, places in values[name].items()}
    rows = run.read_metrics()
    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    train, dev = (
        [(row["step"], float(row["loss"])) for row in rows if row.get("kind") == kind]
        for kind in ("train", "eval")
    )
    lines = values["hypotheses"]
    return CellResult(
        variant=cell.variant,
        seed=cell.seed,
        stopped_at=record.stages[TRAINING].found,
        train=train,
        dev=dev,
        bleu=SacreBleu(values["references"]).score(lines) if lines else None,
        tokens_per_second=statistics.median(rates) if rates else 0.0,
        **values,
    )
