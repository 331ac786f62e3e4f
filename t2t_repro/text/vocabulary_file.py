"""Vocabulary files by kind: which encoder reads each."""

import os
import pathlib

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import ByteTextEncoder, TextEncoder, TokenTextEncoder
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.vocabulary import encoder_of


class VocabType:
    """The kinds of vocabulary of a text problem; each value is the last part of the file's name."""

    CHARACTER = "character"
    SUBWORD = "subwords"
    TOKEN = "tokens"
    SENTENCE_PIECE = "model"


def sized(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files there that differ from "vocab.NAME.SIZE.KIND" in the size alone."""
    stem, _, kind = path.name.rsplit(".", 2)
    return sorted(path.parent.glob(f"{stem}.[0-9]*.{kind}"))


def read(
    kind: str, data_dir: str | os.PathLike, name: str, oov: str | None, problem: str, command: str
) -> TextEncoder:
    """Returns the encoder of a vocabulary.

    Args:
        kind: of `VocabType`.
        data_dir: the folder of the file.
        name: the file's name.
        oov: what stands for an unknown token; for TOKEN.
        problem: the name of the problem, for messages.
        command: what makes the file, for messages.

    Raises:
        UserError: if there is no such file, or no such kind.
    """
    if kind == VocabType.CHARACTER:
        return ByteTextEncoder()
    path = os.path.join(data_dir, name)
    if not os.path.isfile(path):
        raise UserError(
            f"Expected the vocabulary {name} in {os.fspath(data_dir)!r}. "
            f"Received: no such file. Make it: {command}"
        )
    if kind == VocabType.SUBWORD:
        return encoder_of(SubwordTextEncoder, path)
    if kind == VocabType.SENTENCE_PIECE:
        return encoder_of(SentencePieceEncoder, path)
    if kind == VocabType.TOKEN:
        return encoder_of(TokenTextEncoder, path, replace_oov=oov)
    raise UserError(
        f"Expected vocab_type of {problem} to be 'subwords', 'character', 'tokens' or 'model'. "
        f"Received: {kind!r}."
    )
