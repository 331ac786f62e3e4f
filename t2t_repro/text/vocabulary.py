"""Vocabulary files; an encoder has `encode`, `decode` and `vocab_size`.

Users may give their own files: tensor2tensor's subwords or SentencePiece models, one for both sides
or one a side. The data directory and the run have copies, whose names tell the kind.
"""

import functools
import os
import pathlib
from collections.abc import Mapping

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text.encoders import ByteTextEncoder, TextEncoder, TokenTextEncoder
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder


class VocabType:
    """The kinds of vocabulary of a text problem; each value is the last part of the file's name."""

    CHARACTER = "character"
    SUBWORD = "subwords"
    TOKEN = "tokens"
    SENTENCE_PIECE = "model"


_SIDES = ("inputs", "targets")


def sized(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files there that differ from "vocab.NAME.SIZE.KIND" in the size alone."""
    stem, _, kind = path.name.rsplit(".", 2)
    return sorted(path.parent.glob(f"{stem}.[0-9]*.{kind}"))


def read(
    kind: str, path: str | os.PathLike, oov: str | None = None, command: str = "t2t-datagen"
) -> TextEncoder:
    """Returns the encoder of a vocabulary, which a process parses once, unless the file changes.

    Args:
        kind: of `VocabType`.
        path: the file.
        oov: the token for unknown ones; for TOKEN.
        command: the command that makes the file, for messages.

    Raises:
        UserError: if there is no such file.
    """
    if kind == VocabType.CHARACTER:
        return ByteTextEncoder()
    if not os.path.isfile(path):
        raise UserError(
            f"Expected the vocabulary file {os.fspath(path)!r}. Received: none. Make it: {command}"
        )
    status = os.stat(path)
    return _unchanged(kind, os.fspath(path), oov, (status.st_size, status.st_mtime_ns))


@functools.lru_cache(maxsize=16)  # by what was `seen` of the file, too
def _unchanged(kind: str, path: str, oov: str | None, seen: tuple) -> TextEncoder:
    if kind == VocabType.TOKEN:
        return TokenTextEncoder(path, replace_oov=oov)
    if kind == VocabType.SENTENCE_PIECE:
        return SentencePieceEncoder(path)
    return SubwordTextEncoder(path)


def own_names(files: Mapping[str, str], problem: str) -> dict[str, str]:
    """Returns {side: the name in the data directory} of the user's files.

    Args:
        files: {"inputs": path, "targets": path}; the same path twice: one for both sides.
        problem: the problem's name, which a single subword vocabulary gets.

    Raises:
        UserError: if a file is no vocabulary.
    """
    kinds, sizes = {}, {}
    for side, path in files.items():
        with open(path, "rb") as file:  # a model begins with a line feed, the tag of a piece
            is_model = file.read(1) == b"\n"
        kinds[side] = VocabType.SENTENCE_PIECE if is_model else VocabType.SUBWORD
        sizes[side] = read(kinds[side], path).vocab_size
    if files["inputs"] != files["targets"]:
        return {side: f"vocab.{problem}.{side}.{kinds[side]}" for side in files}
    size = f"{sizes['inputs']}." if kinds["inputs"] == VocabType.SUBWORD else ""
    return dict.fromkeys(_SIDES, f"vocab.{problem}.{size}{kinds['inputs']}")


def find_own(folder: str | os.PathLike, problem: str) -> dict[str, str]:
    """Returns {side: name} of the user's vocabularies in a folder; {}: the problem's own is
    used."""
    kinds = (VocabType.SUBWORD, VocabType.SENTENCE_PIECE)
    names = [(side, f"vocab.{problem}.model") for side in _SIDES]
    names += [(side, f"vocab.{problem}.{side}.{kind}") for side in _SIDES for kind in kinds]
    there: dict[str, str] = {}
    for side, name in names:
        if os.path.isfile(os.path.join(folder, name)):
            there.setdefault(side, name)
    return there if len(there) == len(_SIDES) else {}


def install_own(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> None:
    """Copies the user's files into a folder, in the place of the problem's others there."""
    for path in pathlib.Path(folder).glob(f"vocab.{problem}.*"):
        if path.name not in to.values():
            path.unlink()
    for side, name in to.items():
        with writing(pathlib.Path(folder, name), "wb") as copy:
            copy.write(pathlib.Path(files[side]).read_bytes())


def is_own_installed(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> bool:
    """Returns whether a folder has these files, and no others that would be read instead."""
    copies = {side: pathlib.Path(folder, name) for side, name in to.items()}
    return find_own(folder, problem) in ({}, dict(to)) and all(
        copy.is_file() and copy.read_bytes() == pathlib.Path(files[side]).read_bytes()
        for side, copy in copies.items()
    )


def read_own(folder: str | os.PathLike, of: Mapping[str, str]) -> dict[str, TextEncoder]:
    """Returns {side: encoder} of the names that `find_own` returns."""
    return {
        side: read(name.rpartition(".")[2], os.path.join(folder, name)) for side, name in of.items()
    }
