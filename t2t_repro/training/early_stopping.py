"""Early stopping: the end of a run whose evaluations no longer get better.

T2T: `EarlyStoppingHook` and `has_metric_plateaued` of utils/metrics_hook.py. There it works under
no schedule that this package has: the local ones leave the hook out, and it reads a folder that
nothing writes. Here it reads metrics.jsonl after each evaluation and before the first step, so that
a run that was killed stops where it would have stopped.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.training.metrics import LESS_IS_BETTER


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """When to stop; T2T's flags without their "eval_early_stopping_".

    Attributes:
        steps: over how many steps the metric has to have stood still.
        metric: one of those that the evaluation reports.
        metric_delta: a change of less than this, from the first of these steps on, is none.
        metric_minimize: whether less is better; None: as it is for the metric.
        split: which evaluations count.
    """

    steps: int
    metric: str = "loss"
    metric_delta: float = 0.1
    metric_minimize: bool | None = None
    split: str = "dev"

    def __post_init__(self):
        if self.steps < 1:
            raise UserError(f"Expected --eval_early_stopping_steps >= 1. Received: {self.steps}.")
        less = self.metric in LESS_IS_BETTER
        if self.metric_minimize not in (None, less):
            flag = f"--{'' if less else 'no'}eval_early_stopping_metric_minimize"
            raise UserError(
                f"Expected {flag}: of {self.metric}, {'less' if less else 'more'} is better. "
                f"Received: {self.metric_minimize}. Leave the flag out."
            )

    def reached(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Whether the rows of metrics.jsonl say that the run should stop."""
        evaluations = {
            row["step"]: float(row[self.metric])
            for row in rows
            if row.get("kind") == "eval" and row.get("split") == self.split and self.metric in row
        }
        return plateaued(
            evaluations,
            self.steps,
            self.metric_delta,
            minimize=self.metric in LESS_IS_BETTER,
        )


def plateaued(values: Mapping[int, float], steps: int, delta: float, *, minimize: bool) -> bool:
    """Whether a metric has not got better by `delta` for at least `steps`.

    T2T `has_metric_plateaued`: all values since the last that is at least `steps` old are compared
    with that one.

    Args:
        values: {step: value}.
        steps: how long it has to have stood still.
        delta: how much better counts.
        minimize: whether less is better.
    """
    ordered = sorted(values.items())
    old = [step for step, _ in ordered if step <= ordered[-1][0] - steps]
    if not old:
        return False
    start = values[old[-1]]
    recent = [value for step, value in ordered if step >= old[-1]]
    return all((start - value if minimize else value - start) < delta for value in recent)
