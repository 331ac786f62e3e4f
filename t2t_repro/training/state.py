"""state.json and ranking.json beside a checkpoint's arrays, read by a schema.

It loads neither NumPy nor Keras: t2t-show reads these files too.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.run_directory import of_tensor2tensor

WEIGHTS, TRAINING, STATE = "weights.npz", "training.npz", "state.json"
RANKING = "ranking.json"
DECODED_BLEU = "bleu"  # the metric that is decoded; all others are teacher-forced
DECODED_OF = f"; {DECODED_BLEU} of "  # in an evaluation's sample: what follows is decoded
BLEU_SIGNATURE = "bleu_signature"  # beside it in metrics.jsonl: how sacreBLEU computed it
LESS_IS_BETTER = ("loss", "edit_distance")  # the metrics; of all others more is better


class CorruptCheckpoint(UserError):
    """A checkpoint whose files are cut short, changed or missing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Where a run stands: state.json.

    Attributes:
        step: how many steps the run has made (see trainable.py).
        batches: how many batches of the data the run has consumed since its start.
        averaged: the steps whose weights were averaged; empty for a checkpoint of training.
        extra: other values of the loop, as JSON.
        files: {file: bytes} of the files beside state.json; {}: not written yet.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    step: int
    batches: int = 0
    averaged: tuple[int, ...] = ()
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    files: dict[str, int] = dataclasses.field(default_factory=dict, compare=False)
    format: Literal[1] = 1  # another is another program's


@dataclasses.dataclass(frozen=True)
class Ranked:
    """One of the best checkpoints, and what its evaluation found, as text.

    `split` and `sample` name what was evaluated, as in metrics.jsonl; "": unknown.
    """

    step: int
    values: dict[str, str] = dataclasses.field(default_factory=dict)
    split: str = ""
    sample: str = ""


@dataclasses.dataclass(frozen=True)
class Ranking:
    """ranking.json: the checkpoints of a run's `best`, the best first, by a metric."""

    metric: str = ""
    ranking: tuple[Ranked, ...] = ()


def sample_of(metric: str, sample: str) -> str:
    """Returns the sample of a metric, given that of the whole evaluation, in words."""
    teacher_forced, _, decoded = sample.partition(DECODED_OF)
    return decoded if metric == DECODED_BLEU else teacher_forced


def usual_sample(samples: Iterable[str]) -> str:
    """Returns the most frequent sample, in words; old runs have none, or ""."""
    counted = collections.Counter(filter(None, samples)).most_common(1)
    return counted[0][0] if counted else ""


def check_folder(path: str | os.PathLike) -> None:
    """Refuses, before anything heavy is loaded, a folder without checkpoints.

    Raises:
        UserError: if there is no folder, or no checkpoint in it.
    """
    path = pathlib.Path(path).expanduser()
    there = path.name.startswith("ckpt-") or any(path.glob("ckpt-*"))
    if not path.is_dir() or not (there or any(path.glob("checkpoints/ckpt-*"))):
        raise no_checkpoint(path)


def no_checkpoint(path: pathlib.Path) -> UserError:
    """Returns the error for a folder in which there is no whole checkpoint."""
    received = of_tensor2tensor(path) or (
        f"{'no such folder' if not path.is_dir() else 'a folder without an intact ckpt-STEP'}. "
        "Give the --output_dir of a t2t-trainer run that has saved a checkpoint."
    )
    return UserError(f"Expected a checkpoint in {path}. Received: {received}")


def read_state(path: pathlib.Path) -> State:
    """Returns a checkpoint's state; the arrays are not read.

    Raises:
        CorruptCheckpoint: if it is missing or malformed.
    """
    try:
        return schema.read(path / STATE, State)
    except (OSError, schema.Malformed) as error:
        raise CorruptCheckpoint(str(error)) from error


def read_ranking(folder: pathlib.Path) -> Ranking:
    """Returns the ranking of a folder of checkpoints; empty if there is none.

    Raises:
        schema.Malformed: if the file is broken.
    """
    fix = "Delete this file; the newest checkpoint then counts as the best."
    try:
        return schema.read(folder / RANKING, Ranking, fix)
    except FileNotFoundError:
        return Ranking()
