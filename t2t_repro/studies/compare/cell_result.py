"""What one cell of a comparison ended with.

* A cell *diverged* if a step's loss or gradients were not finite, which ends the run, or if the
  mean of the last tenth of its reported training losses is above the loss before the first step.
* It ended *at word frequencies* if its dev loss is not below that of a model that knows nothing
  else: it may have failed, or may need more steps.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.studies.compare.grid import RESULT_FILE, Cell, Grid, run_of

_TENTH = 10

Curve = list[tuple[int, float]]
Places = dict[str, float]

NOT_FINITE, ABOVE = "not finite", "diverged"  # the two ways to diverge
FREQUENCIES, LEARNED = "at word frequencies", "learned"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a finished cell holds.

    Attributes:
        cell: which one.
        stopped_at: the step that was not finite; None: all steps were made.
        train, dev: [(step, loss)] as the run reported them.
        initial_loss: of training, before the first step.
        unigram_loss: the dev loss of word frequencies alone; None where there is no end.
        sentences: {"loss", "tokens", "right"}: of each dev sentence at the end; None: no end.
        hypotheses, references: dev translations at the end; None: none.
        tokens_per_second: the median over the reports.
        parameters: of the model.
        replicas: on how many devices it was trained, each with a batch of batch_size.
        fingerprint: a hash of the first batches.
        gradients, activations: {step: {place: value}}.
    """

    cell: Cell
    stopped_at: int | None
    train: Curve
    dev: Curve
    initial_loss: float | None
    unigram_loss: float | None
    sentences: dict[str, list[float]] | None
    hypotheses: list[str] | None
    references: list[str] | None
    tokens_per_second: float
    parameters: int
    fingerprint: str
    gradients: dict[int, Places]
    activations: dict[int, Places]
    replicas: int = 1

    @property
    def dev_loss(self) -> float | None:
        """The cross entropy of a dev token at the end."""
        return self._per_token("loss")

    @property
    def accuracy(self) -> float | None:
        """The share of dev tokens predicted at the end, each given those before it."""
        return self._per_token("right")

    def _per_token(self, name: str) -> float | None:
        if self.sentences is None:
            return None
        return sum(self.sentences[name]) / sum(self.sentences["tokens"])

    @property
    def last_train_loss(self) -> float | None:
        """The mean of the last tenth of the reported losses."""
        losses = [loss for _, loss in self.train]
        return float(np.mean(losses[-max(1, len(losses) // _TENTH) :])) if losses else None

    @property
    def status(self) -> str:
        """One of the four words above, by the rules of this module."""
        if self.stopped_at is not None:
            return NOT_FINITE
        if self._is_above(self.last_train_loss):
            return ABOVE
        if self.dev_loss is not None and not self.dev_loss < (self.unigram_loss or np.inf):
            return FREQUENCIES
        return LEARNED

    @property
    def diverged_at(self) -> int | None:
        """The step at which it diverged: not finite, or above its beginning from there on; or
        where its last losses came down again, the last that was above."""
        if self.status == NOT_FINITE:
            return self.stopped_at
        if self.status != ABOVE:
            return None
        below = max((step for step, loss in self.train if not self._is_above(loss)), default=0)
        after = [step for step, _ in self.train if step > below]
        # A mean may be above by a spike behind which the last losses are below again.
        above = [step for step, loss in self.train if self._is_above(loss)]
        return after[0] if after else above[-1]

    def _is_above(self, loss: float | None) -> bool:
        return loss is not None and self.initial_loss is not None and loss > self.initial_loss

    def ending(self) -> str:
        """Returns how it ended, in words."""
        if self.diverged_at is not None:
            return f"{self.status} at step {self.diverged_at}"
        return f"dev loss {self.dev_loss:.3f}, {self.status}"

    def steps_to(self, loss: float) -> int | None:
        """Returns the first step at which the dev curve is at `loss`, on lines between its points.

        None if it never is; the curve's first point counts as its own step.
        """
        before = None
        for step, value in self.dev:
            if value <= loss:
                if before is None or value == before[1]:
                    return step
                share = (before[1] - loss) / (before[1] - value)
                return round(before[0] + share * (step - before[0]))
            before = (step, value)
        return None


def check_replicas(output_dir: pathlib.Path, grid: Grid, replicas: int) -> None:
    """Refuses to train on another number of devices than the cells that are finished were.

    Raises:
        UserError: naming both numbers.
    """
    for cell in grid.cells():
        path = run_of(output_dir, grid, cell).path / RESULT_FILE
        there = schema.read(path, dict[str, Any]).get("replicas", 1) if path.is_file() else replicas
        if there != replicas:
            raise UserError(
                f"Expected {there} device{'s' * (there > 1)}, on which the cell {cell} was "
                f"trained: batch_size is that of each. Received: {replicas}. Give "
                f"--worker_gpu={there}, or another --output_dir."
            )


def load(output_dir: pathlib.Path, grid: Grid, cell: Cell) -> CellResult:
    """Returns the result of a finished cell.

    Raises:
        UserError: if its file cannot be read.
    """
    run = run_of(output_dir, grid, cell)
    path = run.path / RESULT_FILE
    rows = run.read_metrics()

    def curve(kind: str) -> Curve:
        return [(row["step"], float(row["loss"])) for row in rows if row.get("kind") == kind]

    def by_step(values: dict[str, Places]) -> dict[int, Places]:
        return {int(step): places for step, places in values.items()}

    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    try:
        values = schema.read(path, dict[str, Any])
        return CellResult(
            **{
                **values,
                "cell": cell,  # the file's may be named otherwise, among other variants
                "gradients": by_step(values["gradients"]),
                "activations": by_step(values["activations"]),
            },
            train=curve("train"),
            dev=curve("eval"),
            tokens_per_second=float(np.median(rates)) if rates else 0.0,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"Expected {path} as t2t-compare wrote it. Received: {error!r}. Remove the file, and "
            "the same command writes it anew."
        ) from error
