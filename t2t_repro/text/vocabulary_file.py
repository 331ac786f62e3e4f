"""Vocabulary files by kind: which encoder reads each.

A user gives files of his own: tensor2tensor's subwords or SentencePiece models, one for both sides
or one a side. A copy lies in the data directory and in the run; its name tells which it is.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping

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


ENCODERS: dict[str, Callable[..., TextEncoder]] = {
    VocabType.SUBWORD: SubwordTextEncoder,
    VocabType.SENTENCE_PIECE: SentencePieceEncoder,
    VocabType.TOKEN: TokenTextEncoder,
}

SIDES = ("inputs", "targets")
_OWN_KINDS = (VocabType.SUBWORD, VocabType.SENTENCE_PIECE)


def sized(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files there that differ from "vocab.NAME.SIZE.KIND" in the size alone."""
    stem, _, kind = path.name.rsplit(".", 2)
    return sorted(path.parent.glob(f"{stem}.[0-9]*.{kind}"))


def read(
    kind: str, data_dir: str | os.PathLike, name: str, oov: str | None, command: str
) -> TextEncoder:
    """Returns the encoder of a vocabulary.

    Args:
        kind: of `VocabType`.
        data_dir: the folder of the file.
        name: the file's name.
        oov: what stands for an unknown token; for TOKEN.
        command: what makes the file, for messages.

    Raises:
        UserError: if there is no such file.
    """
    if kind == VocabType.CHARACTER:
        return ByteTextEncoder()
    path = os.path.join(data_dir, name)
    if not os.path.isfile(path):
        raise UserError(
            f"Expected the vocabulary {name} in {os.fspath(data_dir)!r}. "
            f"Received: no such file. Make it: {command}"
        )
    options = {"replace_oov": oov} if kind == VocabType.TOKEN else {}
    return encoder_of(kind, path, **options)


def encoder_of(kind: str, path: str, **options: str | None) -> TextEncoder:
    """Returns the encoder of a vocabulary file, which a process parses once while it stays as is.

    Args:
        kind: of `VocabType`.
        path: the file.
        options: what the encoder's class takes besides.
    """
    status = os.stat(path)
    return _unchanged(kind, path, status.st_size, status.st_mtime_ns, **options)


@functools.lru_cache(maxsize=16)
def _unchanged(kind: str, path: str, size: int, modified: int, **options) -> TextEncoder:
    del size, modified  # part of the cache's key
    return ENCODERS[kind](path, **options)


def own_names(files: Mapping[str, str], problem: str) -> dict[str, str]:
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
        encoder_of(_kind(path), path)
    if files["inputs"] != files["targets"]:
        return {side: f"vocab.{problem}.{side}.{_kind(path)}" for side, path in files.items()}
    kind = _kind(files["inputs"])
    size = f"{encoder_of(kind, files['inputs']).vocab_size}." if kind == "subwords" else ""
    return dict.fromkeys(SIDES, f"vocab.{problem}.{size}{kind}")


def find_own(folder: str | os.PathLike, problem: str) -> dict[str, str]:
    """Returns {side: name} of the user's vocabularies in a folder; {}: the problem's own counts."""
    shared = f"vocab.{problem}.model"
    if os.path.isfile(os.path.join(folder, shared)):
        return dict.fromkeys(SIDES, shared)
    names = [(side, f"vocab.{problem}.{side}.{kind}") for side in SIDES for kind in _OWN_KINDS]
    there = {side: name for side, name in names if os.path.isfile(os.path.join(folder, name))}
    return there if len(there) == len(SIDES) else {}


def install_own(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> None:
    """Copies the user's files into a folder, in the place of those of another kind."""
    sides = [f"vocab.{problem}.{side}.{kind}" for side in SIDES for kind in _OWN_KINDS]
    own = [path.name for path in pathlib.Path(folder).glob(f"vocab.{problem}.[0-9]*.subwords")]
    for name in {f"vocab.{problem}.model", *sides, *own} - set(to.values()):
        pathlib.Path(folder, name).unlink(missing_ok=True)
    for side, name in to.items():
        with writing(pathlib.Path(folder, name), "wb") as copy:
            copy.write(pathlib.Path(files[side]).read_bytes())


def is_own_installed(
    files: Mapping[str, str], to: Mapping[str, str], folder: str | os.PathLike, problem: str
) -> bool:
    """Whether a folder has these files, and no others that would be read in their place."""
    copies = {side: pathlib.Path(folder, name) for side, name in to.items()}
    return find_own(folder, problem) in ({}, dict(to)) and all(
        copy.is_file() and copy.read_bytes() == pathlib.Path(files[side]).read_bytes()
        for side, copy in copies.items()
    )


def read_own(folder: str | os.PathLike, of: Mapping[str, str]) -> dict[str, TextEncoder]:
    """Returns {side: encoder} of the names that `find_own` returns."""
    paths = {side: os.path.join(folder, name) for side, name in of.items()}
    return {side: encoder_of(path.rpartition(".")[2], path) for side, path in paths.items()}


def _kind(path: str) -> str:
    """Returns "model" or "subwords": a model begins with a line feed, the tag of a piece."""
    with open(path, "rb") as file:
        return "model" if file.read(1) == b"\n" else "subwords"
