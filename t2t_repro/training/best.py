"""The checkpoints whose evaluation was best, in the folder `best` of their run.

It is a run directory of its own, as t2t-avg-all writes one: t2t-decoder, t2t-eval and t2t-avg-all
take it for --output_dir or --model_dir. It holds weights alone, as hard links where the file system
has them; `checkpoints/ranking.json` says which is first.
"""

import dataclasses
import json
import math
from collections.abc import Mapping

import numpy as np

from t2t_repro.errors import unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.state import (
    DECODED_BLEU,
    LESS_IS_BETTER,
    RANKING,
    Ranked,
    Ranking,
    read_ranking,
    sample_of,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeepBest:
    """How many checkpoints to keep in `best`, and what they are judged by.

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
        weights: Mapping[str, np.ndarray] | None = None,
    ) -> bool:
        """Keeps the checkpoint of `step` if it is among the best so far; returns whether it is.

        Those that were judged by other examples cannot be compared with it: they rank behind it.

        Args:
            run: whose checkpoint it is.
            step: that of the checkpoint.
            values: what its evaluation found; what is no metric is left out.
            split: what was evaluated; "": it is not known, and compared with all.
            sample: which part of it, in words.
            weights: what to keep, by the names that a checkpoint has for them; None: the whole
                checkpoint that the run holds.
        """
        new = Ranked(step, self._scores(values), split, sample)
        best = self.directory(run)
        folder = best.checkpoints_dir
        before = read_ranking(folder)
        entries = [entry for entry in (before.ranking if before else ()) if entry.step != step]
        entries = sorted([*entries, new], key=lambda entry: self._cost(entry, new))[: self.count]
        steps = [entry.step for entry in entries]
        if step in steps and weights is None:
            run.copy_description(best)
            checkpoints.copy_weights(run.checkpoints_dir / f"ckpt-{step}", folder)
        elif step in steps:
            arrays = {checkpoints.WEIGHTS: checkpoints.encode(dict(weights or {}))}
            checkpoints.write(folder, arrays, checkpoints.State(step=step))
        ranking = dataclasses.asdict(Ranking(self.metric, tuple(entries)))
        write_text_atomic(folder / RANKING, json.dumps(ranking, indent=1) + "\n")
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
            raise unknown("metric of the best checkpoints", self.metric, scores)
        return scores

    def _cost(self, entry: Ranked, new: Ranked) -> tuple[float, int]:
        """Returns what sorts an entry: less is better, and of equals the older one is."""
        value = float(entry.values.get(self.metric, "nan"))  # an evaluation of old may lack it
        known = entry.split and new.split and self.metric in entry.values
        if known and self._of(entry) != self._of(new):
            return math.inf, 0  # such keep their order, in which the first was the best
        if math.isnan(value):
            return math.inf, entry.step
        return (value if self.metric in LESS_IS_BETTER else -value), entry.step

    def _of(self, entry: Ranked) -> tuple[str, str]:
        """Returns what an entry's metric is of: the split, and which part of it."""
        return entry.split, sample_of(self.metric, entry.sample)
