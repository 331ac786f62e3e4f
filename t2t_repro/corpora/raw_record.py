"""The record of the intake, raw-text.json: so that it runs once and replaces no file of the
user's."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.files import sha256, write_json

NAME = "raw-text.json"
REPEATED = "repeated"  # in the summary of t2t-datagen: what `repeated` returns, where it is not 1
Names = Mapping[str, tuple[str, str]]  # of the two files of each split


@dataclasses.dataclass(frozen=True)
class RawFile:
    """A file of the user's, which was read."""

    path: str
    sha256: str
    bytes: int

    @classmethod
    def from_path(cls, path: str | os.PathLike) -> "RawFile":
        """Returns it as it is now."""
        return cls(shown(os.path.abspath(path)), sha256(path), os.path.getsize(path))


@dataclasses.dataclass(frozen=True)
class Share:
    """A corpus's share of its split: how many of its pairs are written, how often."""

    split: str
    corpus: str
    pairs: int
    weight: float
    written: int
    share: float


@dataclasses.dataclass(frozen=True)
class Made:
    """A file made here."""

    sha256: str
    lines: int


@dataclasses.dataclass(frozen=True)
class Record:
    """The inputs and outputs of an intake.

    Attributes:
        version: of the program.
        request: the flags that were given, and the seed.
        raw_files: the input files.
        shares: of the corpora.
        left_out: how many training pairs are near-duplicates of a drawn one.
        files: the output files, by name.
    """

    version: str
    request: dict[str, Any]
    raw_files: list[RawFile]
    shares: list[Share]
    left_out: int
    files: dict[str, Made]

    def has_made(self, path: pathlib.Path) -> bool:
        """Returns whether a file is unchanged."""
        return path.name in self.files and sha256(path) == self.files[path.name].sha256

    def write(self, folder: pathlib.Path) -> None:
        """Replaces the record in `folder`."""
        write_json(folder / NAME, dataclasses.asdict(self), ensure_ascii=False)


def shown(path: str) -> str:
    """Returns a path as JSON can hold it: a byte that is no UTF-8 as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read(folder: pathlib.Path) -> Record | None:
    """Returns the record in `folder`; None: there is none.

    Raises:
        UserError: if it is malformed.
    """
    if not (folder / NAME).exists():
        return None
    return schema.read(folder / NAME, Record, "Delete it and t2t-datagen's text files beside it.")


def repeated(paths: Sequence[str]) -> float:
    """Returns how often the two files of training have each of their pairs, on the average.

    That is by --train_weights; 1 where the files were not made here.
    """
    record = read(pathlib.Path(paths[0]).parent) if paths else None
    if record is None:
        return 1.0
    shares = [share for share in record.shares if share.split == "train"]
    once = sum(min(share.pairs, share.written) for share in shares)
    written = sum(share.written for share in shares)
    if written == once or not all(map(record.has_made, map(pathlib.Path, paths))):
        return 1.0
    return written / once


def own_files(folder: pathlib.Path, record: Record | None, names: Names) -> set[str]:
    """Returns which files in `folder` were made here.

    Args:
        folder: the folder.
        record: its record.
        names: of the files to make.

    Raises:
        UserError: if an existing one was not made here, or was changed since.
    """
    own = set()
    for name in {*(record.files if record else ()), *itertools.chain.from_iterable(names.values())}:
        for path in filter(pathlib.Path.exists, (folder / name, folder / f"{name}.gz")):
            if not (record and record.has_made(path)):
                raise UserError(
                    f"Expected {path} to be absent, or as t2t-datagen wrote it. Received: another "
                    "file. Delete this file, change --tmp_dir, or omit --train_source to use it."
                )
            own.add(path.name)
    return own
