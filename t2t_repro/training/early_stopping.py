"""Early stopping: the end of a run whose evaluations no longer get better.

T2T: `EarlyStoppingHook` and `has_metric_plateaued` of utils/metrics_hook.py. metrics.jsonl is read
after each evaluation and before the first step, so that a run that was killed stops where it would
have stopped.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_repro.training.state import LESS_IS_BETTER, sample_of

FLAGS = "eval_early_stopping_"  # with which those of t2t-trainer begin


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """When to stop; T2T's flags without their "eval_early_stopping_".

    Attributes:
        steps: over how many steps the metric has to have stood still.
        metric: one of those that the evaluation reports.
        metric_delta: a gain of less than this, from the first of these steps on, is none; 0: any
            gain counts, whatever the metric's scale (T2T's default is 0.1, which no step of a BLEU
            between 0 and 1 reaches).
        split: which evaluations count.
    """

    steps: int
    metric: str = "loss"
    metric_delta: float = 0.0
    split: str = "dev"

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> "EarlyStopping | None":
        """Returns the early stopping of a run by what its run.json keeps of flags; None: none.

        Args:
            options: {flag: text}.
        """
        steps = int(options.get(f"{FLAGS}steps", 0))
        if not steps:
            return None
        return cls(
            steps=steps,
            metric=options.get(f"{FLAGS}metric", cls.metric),
            metric_delta=float(options.get(f"{FLAGS}metric_delta", cls.metric_delta)),
            split="test" if options.get("eval_use_test_set") == "True" else cls.split,
        )

    def reason(self, rows: Iterable[Mapping[str, Any]], sample: str) -> str:
        """Returns why the rows of metrics.jsonl say that the run should stop; "": it should not.

        Args:
            rows: the rows.
            sample: what the run evaluates of the split, in words; evaluations of anything else, as
                by t2t-eval, or before the run went on with other flags, do not count.
        """
        wanted = sample_of(self.metric, sample)
        values = {
            row["step"]: float(row[self.metric])
            for row in rows
            if row.get("kind") == "eval"
            and row.get("split") == self.split
            and sample_of(self.metric, row.get("sample", sample)) == wanted  # old runs say none
            and self.metric in row
        }
        if not values:
            return ""
        minimize = self.metric in LESS_IS_BETTER
        start = plateau(values, self.steps, self.metric_delta, minimize=minimize)
        if start is None:
            return ""
        since = (step for step in sorted(values) if step > start)
        best = min(since, key=lambda step: _cost(values[step], minimize))
        by = f" by {self.metric_delta:g}" if self.metric_delta else ""
        return (
            f"{self.metric} has not got better{by} for {self.steps} steps: it was "
            f"{values[start]:.4f} at step {start}, the best since is {values[best]:.4f} at step "
            f"{best}"
        )


def plateau(values: Mapping[int, float], steps: int, delta: float, *, minimize: bool) -> int | None:
    """Returns the step since which a metric has not got better, for at least `steps`; None: it has.

    T2T `has_metric_plateaued`: all values since the last that is at least `steps` old are compared
    with that one. To become nan is no gain, of nan anything else is one.

    Args:
        values: {step: value}.
        steps: how long it has to have stood still.
        delta: how much better counts; 0: anything better.
        minimize: whether less is better.
    """
    ordered = sorted(values.items())
    old = [step for step, _ in ordered if step <= ordered[-1][0] - steps]
    if not old:
        return None
    start = _cost(values[old[-1]], minimize)
    gains = [start - _cost(value, minimize) for step, value in ordered if step > old[-1]]
    return None if any(gain > 0 and gain >= delta for gain in gains) else old[-1]


def _cost(value: float, minimize: bool) -> float:
    """Returns what is less where a metric is better; of nan it is infinite."""
    if math.isnan(value):
        return math.inf
    return value if minimize else -value
