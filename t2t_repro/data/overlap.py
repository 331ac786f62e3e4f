"""Whether a run has learned what it is judged by: pairs of dev in the text of a training.

Of a run that began with another's weights that may be either's text. It is told by the texts
themselves, where t2t-datagen has left in its summary what they were, and they still are that.
"""

import collections
import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from t2t_repro import schema
from t2t_repro.corpora import bad_pairs
from t2t_repro.data.generate import text_sha256
from t2t_repro.data.job import summary_path
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text import raw


class Text(NamedTuple):
    """The files of a split's sources and targets; its records lack the lines `left_out`, from 1."""

    source: str
    target: str
    left_out: set[int]


Texts = dict[str, Text]  # by split


def texts(problem: Problem, data_dir: str | os.PathLike) -> Texts:
    """Returns the texts that records were made of, of the splits of which they are known.

    Those of a problem whose samples are not made of two files are not.
    """
    found: Texts = {}
    with contextlib.suppress(OSError, UserError):  # tensor2tensor leaves no summary
        summary = schema.read(summary_path(problem, data_dir), dict[str, Any])
        left_out = bad_pairs.path_of(data_dir, problem.dataset_filename())
        for split in {Split.TRAIN, Split.EVAL} & summary["splits"].keys():
            paths = problem.raw_text_files(summary.get("tmp_dir", ""), split)
            names = [os.path.basename(path).removesuffix(".gz") for path in paths]
            now = {name: text_sha256(path) for name, path in zip(names, paths, strict=True)}
            if len(now) == 2 and now == summary["splits"][split].get("raw_text"):
                found[split] = Text(paths[0], paths[1], bad_pairs.read(left_out, split))
    return found


def warnings(new: Texts, old: Texts, parent: str) -> list[str]:
    """Returns what to say of data for a run that begins with another's weights.

    Args:
        new: their texts.
        old: those that the other run was trained on.
        parent: what that is called.
    """
    pairs = (
        (
            *(old, new),
            f"dev stand in the text that {parent} was trained on: what it and a run from it make "
            f"of them says too much. Leave them out of dev, or keep the dev of {parent}",
        ),
        (
            *(new, old),
            f"the dev of {parent} stand in this training text: scores of the old domain by them "
            f"say too much. Mix in what {parent} was trained on instead",
        ),
    )
    return [
        f"{known:,} pairs of {what}."
        for training, dev, what in pairs
        if (known := count(training, dev))
    ]


def count(training: Texts, dev: Texts) -> int:
    """Returns how many pairs of a dev stand in the text of a training; 0 where it is not known.

    Blanks at the ends of a line are none, as in the records, and a pair without words is nobody's.
    """
    if Split.TRAIN not in training or Split.EVAL not in dev:
        return 0
    wanted = collections.Counter(_pairs(dev[Split.EVAL]))
    return sum(wanted.pop(pair, 0) for pair in _pairs(training[Split.TRAIN]))


def _pairs(text: Text) -> Iterator[tuple[str, str]]:
    """Yields the pairs in the records."""
    lines = zip(raw.lines(text.source), raw.lines(text.target), strict=False)
    for source, target in bad_pairs.without(lines, text.left_out):
        pair = source.strip(), target.strip()
        if any(pair):
            yield pair
