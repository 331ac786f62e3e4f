"""The file of a corpus's dropped pairs: a line each, with the reasons.

It lies beside the data made without them. Every reader of the corpus, here or on another machine,
skips the pairs in it.
"""

import os
import pathlib
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from t2t_repro.files import writing
from t2t_repro.text import raw

Item = TypeVar("Item")
_HEADER = b"split\tline\treasons\tsource\ttarget\n"


class BadPair(NamedTuple):
    """A pair to drop: its split, its line from 1, the reasons, and both sides."""

    split: str
    line: int
    reasons: list[str]
    source: str
    target: str


def path_of(data_dir: str | os.PathLike, name: str) -> pathlib.Path:
    """Returns the path of the file for the problem of that name."""
    return pathlib.Path(data_dir, f"datagen.{name}.bad_pairs.tsv")


def write(path: str | os.PathLike, pairs: Iterable[BadPair]) -> None:
    """Writes the pairs; tabs and ends of lines in a side become spaces."""
    with writing(path, "wb") as file:
        file.write(_HEADER)
        for pair in pairs:
            sides = (" ".join(side.split()) for side in (pair.source, pair.target))
            row = [pair.split, str(pair.line), ",".join(pair.reasons), *sides]
            file.write(("\t".join(row) + "\n").encode())


def read(path: str | os.PathLike, split: str) -> set[int]:
    """Returns the lines of a split, from 1; none where there is no file."""
    if not os.path.exists(path):
        return set()
    rows = (line.split("\t", 2) for line in raw.lines(path))
    return {int(row[1]) for row in rows if row[0] == split}


def without(samples: Iterable[Item], lines: set[int]) -> Iterable[Item]:
    """Returns the samples except those whose number, from 1, is in `lines`."""
    if not lines:
        return samples
    return (sample for line, sample in enumerate(samples, start=1) if line not in lines)
