"""Whether a run has learned what it is judged by: pairs of dev in the text of a training.

Of a run that began with another's weights that may be either's text. It is told by the texts
themselves, where t2t-datagen has left in its summary what they were, and they still are that.
"""

import collections
import contextlib
import dataclasses
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from t2t_repro import progress, schema
from t2t_repro.corpora import bad_pairs
from t2t_repro.data import raw_text, vocabularies
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text import raw

_LARGE = 1 << 28  # bytes that take a moment to read


class Text(NamedTuple):
    """The files of a split's sources and targets; its records lack the lines `left_out`, from 1."""

    source: str
    target: str
    left_out: set[int]

    @property
    def files(self) -> tuple[str, str]:
        """Both files."""
        return self.source, self.target


Texts = dict[str, Text]  # by split


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Summary:
    """What is read of the summary of t2t-datagen."""

    splits: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    tmp_dir: str = ""


def texts(problem: Problem, data_dir: str | os.PathLike) -> Texts:
    """Returns the texts that records were made of, of the splits of which they are known.

    Those of a problem whose samples are not made of two files are not.
    """
    summary = _Summary()
    with contextlib.suppress(OSError, UserError):  # tensor2tensor leaves none
        summary = schema.read(vocabularies.summary_path(problem, data_dir), _Summary)
    found: Texts = {}
    left_out = bad_pairs.path_of(data_dir, problem.dataset_filename())
    for split, made in summary.splits.items():
        digests = made.get("raw_text", {})
        if split not in Split.ALL or not isinstance(digests, Mapping) or len(digests) != 2:
            continue
        with contextlib.suppress(OSError, UserError):  # they are gone
            paths = problem.raw_text_files(summary.tmp_dir, split)
            names = [os.path.basename(path).removesuffix(".gz") for path in paths]
            now = {name: raw_text.sha256(path) for name, path in zip(names, paths, strict=True)}
            if now == digests:
                found[split] = Text(paths[0], paths[1], bad_pairs.read(left_out, split))
    return found


def counts(training: Texts, *devs: Texts) -> list[int | None]:
    """Returns of each dev how many of its pairs stand in the text of a training.

    None: it is not known. Blanks at the ends of a line are none, as in the records, and a pair
    without words is nobody's.
    """
    if Split.TRAIN not in training:
        return [None for _ in devs]
    wanted = [collections.Counter(_pairs(dev.get(Split.EVAL))) for dev in devs]
    found = [0 for _ in devs]
    for pair in _pairs(training[Split.TRAIN]):
        for number, pairs in enumerate(wanted):
            found[number] += pairs.pop(pair, 0)
    known = [Split.EVAL in dev for dev in devs]
    return [count if there else None for count, there in zip(found, known, strict=True)]


def warnings(new: Texts, old: Texts, parent: str) -> list[str]:
    """Returns what to say of data for a run that begins with another's weights.

    Args:
        new: their texts.
        old: those that the other run was trained on.
        parent: what that is called.
    """
    said = []
    (known,) = counts(old, new)
    if known:
        own = "its own dev"
        if Split.EVAL in old:
            source, target = map(shlex.quote, old[Split.EVAL].files)
            own += f" (--dev_source={source} --dev_target={target}, in new folders)"
        said.append(
            f"{known:,} pairs of dev stand in the text that {parent} was trained on: what it and a "
            "run from it make of them says too much. Leave them out of dev; or, where this is more "
            f"text of the same domain, keep {own}."
        )
    (known,) = counts(new, old)
    if known:
        how = "Mix in what it was trained on"
        if Split.TRAIN in old:
            how += ", " + " and ".join(map(shlex.quote, old[Split.TRAIN].files))
        said.append(
            f"{known:,} pairs of the dev of {parent} stand in this training text: its BLEU "
            f"will say too much of the old domain. {how}, in the place of the text that its "
            "dev was drawn from."
        )
    return said


def _pairs(text: Text | None) -> Iterator[tuple[str, str]]:
    """Yields the pairs in the records; what has no partner is the business of who reads it."""
    if text is None:
        return
    lines: Iterable[tuple[str, str]] = zip(*map(raw.lines, text.files), strict=False)
    if sum(map(os.path.getsize, text.files)) > _LARGE:
        lines = progress.track(lines, f"Looking for pairs of dev in {text.source}", unit="pairs")
    for source, target in bad_pairs.without(lines, text.left_out):
        pair = source.strip(), target.strip()
        if any(pair):
            yield pair
