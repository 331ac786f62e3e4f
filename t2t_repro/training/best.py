"""The best checkpoints of a run, and early stopping, by its evaluations.

The best lie in the folder `best` of their run, a run directory of its own, as t2t-avg-all writes
one: t2t-decoder, t2t-eval and t2t-avg-all take it for --output_dir or --model_dir. It holds weights
alone, as hard links where the file system has them; `checkpoints/ranking.json` says which is first.

A run ends early when its evaluations no longer improve (T2T: `EarlyStoppingHook` and
`has_metric_plateaued` of utils/metrics_hook.py). metrics.jsonl is read after each evaluation and
before the first step, so that a killed run stops where it would have stopped.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from t2t_repro.errors import unknown
from t2t_repro.files import write_json
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.state import (
    DECODED_BLEU,
    LESS_IS_BETTER,
    RANKING,
    Ranked,
    Ranking,
    read_ranking,
    sample_of,
)

if TYPE_CHECKING:  # t2t-show needs none
    import numpy as np

FLAGS = "eval_early_stopping_"  # with which those of t2t-trainer begin


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeepBest:
    """How many checkpoints to keep in `best`, and by which metric.

    Attributes:
        count: this many.
        metric: one of those that the evaluation reports; of LESS_IS_BETTER less is better.
    """

    count: int = 1
    metric: str = "loss"

    def directory(self, run: RunDirectory) -> RunDirectory:
        """Returns the run directory of the best."""
        return RunDirectory(run.path / "best")

    def add(
        self,
        run: RunDirectory,
        step: int,
        values: Mapping[str, float],
        split: str = "",
        sample: str = "",
        weights: "Mapping[str, np.ndarray] | None" = None,
    ) -> bool:
        """Keeps the checkpoint of `step` if it is among the best so far; returns whether it is.

        Checkpoints that were evaluated on other examples rank below it.

        Args:
            run: whose checkpoint it is.
            step: that of the checkpoint.
            values: of its evaluation; those that are no metrics are ignored.
            split: what was evaluated; "": unknown, and compared with all.
            sample: which part of it, in words.
            weights: what to keep, by a checkpoint's names; None: the run's whole checkpoint.
        """
        from t2t_repro.training import checkpoints

        new = Ranked(step, self._scores(values), split, sample)
        best = self.directory(run)
        folder = best.checkpoints_dir
        entries = [entry for entry in read_ranking(folder).ranking if entry.step != step]
        entries = sorted([*entries, new], key=lambda entry: self._cost(entry, new))[: self.count]
        steps = [entry.step for entry in entries]
        if step in steps and weights is None:
            run.copy_description(best)
            checkpoints.copy_weights(run.checkpoints_dir / f"ckpt-{step}", folder)
        elif step in steps:
            arrays = {checkpoints.WEIGHTS: checkpoints.encode(dict(weights or {}))}
            checkpoints.write(folder, arrays, checkpoints.State(step=step))
        ranking = dataclasses.asdict(Ranking(self.metric, tuple(entries)))
        write_json(folder / RANKING, ranking)
        for path in checkpoints.list_checkpoints(folder):
            if checkpoints.step_of(path) not in steps:
                checkpoints.delete(path)
        return step in steps

    def _scores(self, values: Mapping[str, float]) -> dict[str, str]:
        """Returns the metrics among the values, as text."""
        from t2t_repro.training.metrics import METRICS

        names = ("loss", *METRICS, DECODED_BLEU)
        scores = {name: str(values[name]) for name in names if name in values}
        if self.metric not in scores:
            raise unknown("metric to rank checkpoints by", self.metric, scores)
        return scores

    def _cost(self, entry: Ranked, new: Ranked) -> tuple[float, int]:
        """Returns the key of an entry: less is better, and of equals the older one."""
        of = [(each.split, sample_of(self.metric, each.sample)) for each in (entry, new)]
        known = entry.split and new.split and self.metric in entry.values
        if known and of[0] != of[1]:
            return math.inf, 0  # such keep their order, in which the first was the best
        value = float(entry.values.get(self.metric, "nan"))  # an old evaluation may lack it
        return _cost(value, self.metric in LESS_IS_BETTER), entry.step


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """When to stop; T2T's flags without their "eval_early_stopping_".

    Attributes:
        steps: stop after this many steps without a gain.
        metric: one of those that the evaluation reports.
        metric_delta: smaller gains than this since the first of these steps do not count; 0: any
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
        """Returns the early stopping of the flags in a run's run.json; None: none.

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
        """Returns the reason to stop, by the rows of metrics.jsonl; "": none.

        Args:
            rows: the rows.
            sample: what the run evaluates of the split, in words; evaluations of other data, as by
                t2t-eval or under earlier flags, do not count.
        """
        wanted = sample_of(self.metric, sample)
        values = {
            row["step"]: float(row[self.metric])
            for row in rows
            if row.get("kind") == "eval"
            and row.get("split") == self.split
            and sample_of(self.metric, row.get("sample", sample)) == wanted  # old runs have none
            and self.metric in row
        }
        minimize = self.metric in LESS_IS_BETTER
        start = plateau(values, self.steps, self.metric_delta, minimize=minimize)
        if start is None:
            return ""
        since = (step for step in sorted(values) if step > start)
        best = min(since, key=lambda step: _cost(values[step], minimize))
        by = f" by {self.metric_delta:g}" if self.metric_delta else ""
        return (
            f"{self.metric} has not improved{by} for {self.steps} steps: it was "
            f"{values[start]:.4f} at step {start}, and the best since then is {values[best]:.4f} "
            f"at step {best}"
        )


def plateau(values: Mapping[int, float], steps: int, delta: float, *, minimize: bool) -> int | None:
    """Returns the step since which a metric has not improved, for at least `steps`; None: it has.

    T2T `has_metric_plateaued`: all values since the last that is at least `steps` old are compared
    with that one. To become nan is no gain, of nan anything else is one.

    Args:
        values: {step: value}.
        steps: the length of the plateau.
        delta: the least gain that counts; 0: any.
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
    """Returns a cost, lower for a better metric; infinite for nan."""
    if math.isnan(value):
        return math.inf
    return value if minimize else -value
