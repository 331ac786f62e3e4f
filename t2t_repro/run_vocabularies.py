"""A run's vocabularies: its ids are of no use with others.

run.json has the SHA-256 of each, so that one that is missing or was changed is not replaced unseen
by one of as many symbols.
"""

import itertools
import os
import pathlib
from collections.abc import Iterable, Mapping

from t2t_repro.errors import UserError
from t2t_repro.files import sha256


def digests(files: Iterable[str | os.PathLike]) -> dict[str, str]:
    """Returns {name: SHA-256} of vocabularies."""
    return {pathlib.Path(file).name: sha256(file) for file in files}


def check_given(
    run: pathlib.Path, known: Mapping[str, str], files: Iterable[str | os.PathLike]
) -> None:
    """Checks vocabularies that lie elsewhere against the run's own of the same names.

    Args:
        run: the folder of the run, which has its own or had them.
        known: {name: SHA-256} of its own, as far as that was written down.
        files: the others.

    Raises:
        UserError: if one is another; the first line that differs is named, where it is known.
    """
    for file in map(pathlib.Path, files):
        if (run / file.name).exists():
            _check_same(run / file.name, file)
        elif file.name in known:
            if sha256(file) != known[file.name]:
                raise UserError(
                    f"Expected {file} to be the vocabulary of the run {run}. Received: another "
                    "one, by its SHA-256 in run.json. Give the --data_dir of this run, or another "
                    "--output_dir for a new run."
                )
        elif there := sorted(run.glob("vocab.*")):
            raise UserError(
                f"Expected {file} to be the vocabulary of the run {run}. Received: one of another "
                f"kind, for the run has {there[0].name}. Give the --data_dir of this run, or "
                "another --output_dir for a new run."
            )


def check_own(run: pathlib.Path, known: Mapping[str, str]) -> None:
    """Checks that a run still has the vocabularies that it was begun with.

    Args:
        run: its folder.
        known: {name: SHA-256} of them.

    Raises:
        UserError: if one is missing, or is another.
    """
    for name, digest in known.items():
        file = run / name
        there = sha256(file) if file.is_file() else ""
        if there != digest:
            raise UserError(
                f"Expected {file} as the run was begun with it: its ids are of no use with another "
                f"vocabulary. Received: {'another one' if there else 'no such file'}. Put it back, "
                "such as from a copy of the run, or give the --data_dir that has it."
            )


def _check_same(mine: pathlib.Path, given: pathlib.Path) -> None:
    """Raises a UserError if the lines of a run's vocabulary are others."""
    old, new = mine.read_bytes().splitlines(), given.read_bytes().splitlines()
    if old == new:
        return
    pairs = itertools.zip_longest(old, new, fillvalue=b"no such line")
    number, (was, now) = next((n, pair) for n, pair in enumerate(pairs, 1) if len(set(pair)) > 1)
    raise UserError(
        f"Expected {given} to be the vocabulary of the run {mine.parent}. Received: "
        f"another of {len(new)} lines, not {len(old)}; the first that differs is line {number}: "
        f"{was.decode(errors='replace')!r} became {now.decode(errors='replace')!r}. Give the "
        "--data_dir of this run, or another --output_dir for a new run."
    )
