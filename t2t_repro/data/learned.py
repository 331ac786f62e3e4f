"""Whether a run has learned what it is judged by: pairs of dev in the text of a training.

Of a run that began with another's weights that may be either's text. It is told by the texts
themselves, where t2t-datagen has left in its summary what they were, and they still are that.
"""

import collections
import contextlib
import dataclasses
import os
import shlex
from collections.abc import Mapping
from typing import Any

from t2t_repro import schema
from t2t_repro.data import raw_text, vocabularies
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text import raw

Texts = dict[str, tuple[str, str]]  # {split: the files of sources and of targets}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Summary:
    """What is read of the summary of t2t-datagen."""

    splits: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    tmp_dir: str = ""


def texts(problem: Problem, data_dir: str | os.PathLike) -> Texts:
    """Returns the texts that records were made of, of the splits of which they are known."""
    summary = _Summary()
    with contextlib.suppress(OSError, UserError):  # tensor2tensor leaves none
        summary = schema.read(vocabularies.summary_path(problem, data_dir), _Summary)
    found: Texts = {}
    for split, made in summary.splits.items():
        digests = made.get("raw_text", {})
        paths = problem.raw_text_files(summary.tmp_dir, split) if split in Split.ALL else []
        if len(paths) == 2 and isinstance(digests, Mapping):
            names = (os.path.basename(path).removesuffix(".gz") for path in paths)
            now = zip(paths, names, strict=True)
            with contextlib.suppress(OSError, UserError):
                if all(raw_text.sha256(path) == digests.get(name) for path, name in now):
                    found[split] = (paths[0], paths[1])
    return found


def count(dev: Texts, training: Texts) -> int | None:
    """Returns how many pairs of a dev text stand in that of a training; None: it is not known."""
    if Split.EVAL not in dev or Split.TRAIN not in training:
        return None
    wanted = collections.Counter(_pairs(dev))
    return sum(wanted.pop(pair, 0) for pair in _pairs(training, Split.TRAIN))


def warnings(new: Texts, old: Texts, parent: str) -> list[str]:
    """Returns what to say of data for a run that begins with another's weights.

    Args:
        new: their texts.
        old: those that the other run was trained on.
        parent: what that is called.
    """
    said = []
    if known := count(new, old):
        how = "Keep its own dev"
        if Split.EVAL in old:
            source, target = map(shlex.quote, old[Split.EVAL])
            how += f": --dev_source={source} --dev_target={target}, in new folders"
        said.append(
            f"{known:,} pairs of dev stand in the text that {parent} was trained on: what it and a "
            f"run from it make of them says too much. {how}."
        )
    if known := count(old, new):
        how = "Mix in what it was trained on"
        if Split.TRAIN in old:
            how += ", " + " and ".join(map(shlex.quote, old[Split.TRAIN]))
        said.append(
            f"{known:,} pairs of the dev of {parent} stand in this training text: what t2t-gains "
            f"will say of the old domain says too much. {how}, in the place of the text that its "
            "dev was drawn from."
        )
    return said


def _pairs(of: Texts, split: str = Split.EVAL):
    """Yields the pairs of a split; what has no partner is the business of who reads it."""
    return zip(*map(raw.lines, of[split]), strict=False)
