"""Vocabularies that the user gives: tensor2tensor's subwords or SentencePiece models.

There is one for both sides or one a side. A copy lies in the data directory and in the run; its
name tells which it is.
"""

import os
import pathlib
from collections.abc import Mapping

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text.encoders import TextEncoder
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.vocabulary import encoder_of

SIDES = ("inputs", "targets")
_KINDS = {"subwords": SubwordTextEncoder, "model": SentencePieceEncoder}


def names(files: Mapping[str, str], problem: str) -> dict[str, str]:
    """Returns {side: the name in the data directory} of the user's files.

    Args:
        files: {"inputs": path, "targets": path}; the same path twice: one for both sides.
        problem: the problem's name; one vocabulary of subwords is called as its own.

    Raises:
        UserError: if a file is missing or no vocabulary.
    """
    for path in files.values():
        if not os.path.isfile(path):
            raise UserError(
                "Expected a vocabulary: tensor2tensor's subwords, or a SentencePiece model. "
                f"Received: {path!r}, which is no file. Correct the path."
            )
        _KINDS[_kind(path)](path)
    if files["inputs"] != files["targets"]:
        return {side: f"vocab.{problem}.{side}.{_kind(path)}" for side, path in files.items()}
    kind = _kind(files["inputs"])
    size = f"{_KINDS[kind](files['inputs']).vocab_size}." if kind == "subwords" else ""
    return dict.fromkeys(SIDES, f"vocab.{problem}.{size}{kind}")


def find(folder: str | os.PathLike, problem: str) -> dict[str, str]:
    """Returns {side: name} of the user's vocabularies in a folder; {}: the problem's own counts."""
    shared = f"vocab.{problem}.model"
    if os.path.isfile(os.path.join(folder, shared)):
        return dict.fromkeys(SIDES, shared)
    there = {
        side: f"vocab.{problem}.{side}.{kind}"
        for side in SIDES
        for kind in _KINDS
        if os.path.isfile(os.path.join(folder, f"vocab.{problem}.{side}.{kind}"))
    }
    return there if len(there) == len(SIDES) else {}


def are_of_one_size(files: Mapping[str, str]) -> bool:
    """Whether the user's files {side: path} are two vocabularies with as many symbols."""
    contents = {pathlib.Path(path).read_bytes(): path for path in files.values()}
    sizes = {_KINDS[_kind(path)](path).vocab_size for path in contents.values()}
    return len(contents) > len(sizes)


def install(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> None:
    """Copies the user's files into a folder, in the place of those of another kind."""
    sides = [f"vocab.{problem}.{side}.{kind}" for side in SIDES for kind in _KINDS]
    own = [path.name for path in pathlib.Path(folder).glob(f"vocab.{problem}.[0-9]*.subwords")]
    for name in {f"vocab.{problem}.model", *sides, *own} - set(to.values()):
        pathlib.Path(folder, name).unlink(missing_ok=True)
    for side, name in to.items():
        with writing(pathlib.Path(folder, name), "wb") as copy:
            copy.write(pathlib.Path(files[side]).read_bytes())


def are_installed(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> bool:
    """Whether a folder has these files, and no others that would be read in their place."""
    there = find(folder, problem)
    if there and there != to:
        return False
    for side, name in to.items():
        path = pathlib.Path(folder, name)
        if not path.is_file() or path.read_bytes() != pathlib.Path(files[side]).read_bytes():
            return False
    return True


def read(folder: str | os.PathLike, of: Mapping[str, str]) -> dict[str, TextEncoder]:
    """Returns {side: encoder} of the names that `find` returns."""
    kinds = {side: _KINDS[name.rpartition(".")[2]] for side, name in of.items()}
    return {s: encoder_of(kinds[s], os.path.join(folder, name)) for s, name in of.items()}


def _kind(path: str) -> str:
    """Returns "model" or "subwords": a model begins with a line feed, the tag of a piece."""
    with open(path, "rb") as file:
        return "model" if file.read(1) == b"\n" else "subwords"
