"""subword-nmt's BPE codes as a SentencePiece model, which every program and a graph can read.

The codes end a word by </w>; SentencePiece ends it by its sign for a blank, and merges the pair
whose union has the best score: here the merge that stands first. For codes that learn-bpe wrote
these are the pieces that apply-bpe gives (Sennrich et al. 2016), words being what lies between
blanks. A character that no code has is spelled by its bytes, where apply-bpe leaves it to be
unknown.
"""

import itertools
import os
import struct
from collections.abc import Iterator

from t2t_repro.errors import UserError
from t2t_repro.text import raw

_END, BLANK = "</w>", "\u2581"  # of a word, there and in SentencePiece
_FIRST_LINE = "#version: 0.2"  # in 0.1 the end of a word was a symbol of its own
_NORMAL, _UNKNOWN, _BYTE = 1, 2, 6  # kinds of pieces
_BPE = 2  # a kind of model


def are_codes(path: str | os.PathLike) -> bool:
    """Whether a file looks like codes: tensor2tensor's subwords stand in quotes, one a line."""
    with open(path, "rb") as file:
        first = file.readline(1000)
    return (
        first.startswith(b"#version") or len(first.split()) == 2 and first[:1] not in (b"'", b'"')
    )


def model_of(path: str | os.PathLike) -> bytes:
    """Returns the SentencePiece model of a file of codes.

    Raises:
        UserError: if it is of another version, a line is no merge, or there is none.
    """
    lines = list(raw.lines(path))
    if not lines or lines[0].split() != _FIRST_LINE.split():
        raise UserError(
            f"Expected BPE codes of subword-nmt, which begin with the line {_FIRST_LINE!r}. "
            f"Received: {lines[0][:99] if lines else ''!r} in {os.fspath(path)}. Write them anew "
            "by subword-nmt learn-bpe."
        )
    merges = list(_merges(lines[1:], path))
    if not merges:
        raise UserError(
            f"Expected BPE codes, a merge a line. Received: none in {os.fspath(path)}. Write them "
            "by subword-nmt learn-bpe."
        )
    characters = dict.fromkeys("".join(itertools.chain.from_iterable(merges)))
    characters.pop(BLANK, None)
    ended = [character + BLANK for character in characters]
    joined = dict.fromkeys([*ended, *(one + other for one, other in merges)])
    return serialized([*characters, BLANK], list(joined))


def _merges(lines: list[str], path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=2):
        parts = line.rstrip(" \r").split(" ")
        if len(parts) != 2 or not all(parts) or parts[0].endswith(_END) or "\0" in line:
            raise UserError(
                "Expected BPE codes, two symbols with a blank between on each line. Received: "
                f"{line!r} on line {number} of {os.fspath(path)}. Write them by subword-nmt "
                "learn-bpe."
            )
        one, other = parts
        ends = other.endswith(_END)
        if BLANK not in line:  # there it is a character, here it ends a word
            yield one, other.removesuffix(_END) + BLANK * ends


def serialized(characters: list[str], joined: list[str]) -> bytes:
    """Returns a SentencePiece model: bytes, characters, and what merges make, the best first."""
    pieces = [("<unk>", 0, _UNKNOWN), *((f"<0x{byte:02X}>", 0, _BYTE) for byte in range(256))]
    special = {piece for piece, _, _ in pieces}  # text that is written so stays in parts
    joined = [piece for piece in joined if piece not in special]
    pieces += [(piece, -place, _NORMAL) for place, piece in enumerate(joined)]
    known = {piece for piece, _, _ in pieces}
    pieces += [(piece, -len(joined), _NORMAL) for piece in characters if piece not in known]
    model = b"".join(
        _field(1, _field(1, piece.encode()) + _field(2, float(score)) + _field(3, kind))
        for piece, score, kind in pieces
    )
    trainer: dict[int, bytes | float] = {
        3: _BPE,  # model_type
        4: len(pieces),  # vocab_size
        24: True,  # treat_whitespace_as_suffix
        35: True,  # byte_fallback
        40: 0,  # unk_id
        41: -1,  # bos_id
        42: -1,  # eos_id
        43: -1,  # pad_id
    }
    normalizer: dict[int, bytes | float] = {
        1: b"identity",  # name
        3: True,  # add_dummy_prefix
        4: True,  # remove_extra_whitespaces
        5: True,  # escape_whitespaces
    }
    for number, specification in ((2, trainer), (3, normalizer)):
        model += _field(number, b"".join(_field(*field) for field in specification.items()))
    return model


def _field(number: int, value: bytes | float) -> bytes:
    """Returns a field of a protocol buffer, of sentencepiece_model.proto. The module that comes
    with sentencepiece for this needs another protobuf than TensorFlow has."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value % 2**64)


def _varint(number: int) -> bytes:
    """Returns an unsigned number, seven bits a byte, the last byte below 128."""
    least, more = number & 127, number >> 7
    return bytes([least | 128]) + _varint(more) if more else bytes([least])
