"""SentencePiece: a model as an encoder, and byte pairs learned from text, as in the paper.

SentencePiece numbers unknown text, begin, end and padding itself, each model otherwise. Here 0 pads
and 1 ends, as everywhere; the model's pieces follow in its order, the one for unknown text too,
and its begin, end and padding have no ids.

Byte-pair encoding (Sennrich et al. 2016): SentencePiece learns the merges: of words between blanks,
whose end is a symbol of its own, none across letters, figures and punctuation. The model merges the
pair whose union has the best score: the merge that was learnt first. The rarest characters,
together one in 2,000 of the text, are spelled by their bytes.
"""

import io
import os
import pathlib
import struct
from collections.abc import Iterable
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text.encoders import NUM_RESERVED_TOKENS, RESERVED_TOKENS, PieceEncoder

_BLANK = "\u2581"  # ends a word in SentencePiece
_NORMAL, _UNKNOWN, _BYTE = 1, 2, 6  # kinds of pieces
_BPE = 2  # a kind of model
_COVERAGE = 0.9995  # of the characters
_BYTES, _CHARACTERS = 257, 4000  # pieces besides the merges: exactly, and at most


class SentencePieceEncoder(PieceEncoder):
    """Text to the ids of pieces and back. SentencePiece normalises the text, as its model says."""

    def __init__(self, filename: str | os.PathLike[str]):
        """Reads a model.

        Args:
            filename: the file.

        Raises:
            UserError: if the file is none, or the package sentencepiece is not installed.
        """
        super().__init__()
        self.model = pathlib.Path(filename).read_bytes()
        self._processor: Any = _package().SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(self.model)
        except (RuntimeError, TypeError, ValueError):
            raise UserError(
                "Expected a SentencePiece model, or tensor2tensor's subwords, one per line. "
                f"Received: {os.fspath(filename)}, which is neither. Give spm_train's .model file."
            ) from None
        kept = self._processor.GetPieceSize()
        #: The model's own ids of ours, from NUM_RESERVED_TOKENS on.
        self.own_ids = [i for i in range(kept) if not self._processor.IsControl(i)]
        self._ids = {own: i for i, own in enumerate(self.own_ids, start=NUM_RESERVED_TOKENS)}
        pieces = map(self._processor.IdToPiece, self.own_ids)
        self.all_subtoken_strings = (*RESERVED_TOKENS, *pieces)

    def encode(self, text: str) -> list[int]:
        return [self._ids[i] for i in self._processor.EncodeAsIds(text)]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Returns the text of `ids`; reserved ids and those outside the vocabulary are dropped.

        A model whose words end with the sign for a blank leaves one at the end, which is cut off.
        """
        within = range(NUM_RESERVED_TOKENS, self.vocab_size)
        own = [self.own_ids[i - NUM_RESERVED_TOKENS] for i in ids if i in within]
        return self._processor.DecodeIds(own).rstrip(" ") if own else ""


def learn_bpe(path: str | os.PathLike, texts: Iterable[str], merges: int) -> int:
    """Writes a SentencePiece model of the best merges of texts; returns how many they are.

    Args:
        path: the file.
        texts: lines.
        merges: how many there may be; a short text has fewer.

    Raises:
        UserError: if the package sentencepiece is not installed.
    """
    sentencepiece = _package()
    learnt = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=learnt,
        model_type="bpe",
        vocab_size=merges + _BYTES + _CHARACTERS,
        hard_vocab_limit=False,
        character_coverage=_COVERAGE,
        treat_whitespace_as_suffix=True,
        normalization_rule_name="identity",
        byte_fallback=True,
        max_sentence_length=2**20,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=learnt.getvalue())
    numbers = range(processor.GetPieceSize())
    own = [i for i in numbers if not (processor.IsByte(i) or processor.IsUnknown(i))]
    pieces = [processor.IdToPiece(i) for i in own]
    # The end of a word joins a character by a merge here, and counts as none of them.
    made = [piece for piece in pieces if len(piece.removesuffix(_BLANK)) > 1]
    left_out = set(made[merges:])
    kept = [piece for piece in pieces if piece not in left_out]
    with writing(path, "wb") as file:
        file.write(_serialized(kept))
    return len(made) - len(left_out)


def _serialized(learnt: list[str]) -> bytes:
    """Returns a SentencePiece model: bytes, what merges make, the best first, and characters."""
    pieces = [("<unk>", 0, _UNKNOWN), *((f"<0x{byte:02X}>", 0, _BYTE) for byte in range(256))]
    special = {piece for piece, _, _ in pieces}  # text that is written so stays in parts
    joined = [piece for piece in learnt if len(piece) > 1 and piece not in special]
    pieces += [(piece, -place, _NORMAL) for place, piece in enumerate(joined)]
    pieces += [(piece, -len(joined), _NORMAL) for piece in learnt if len(piece) == 1]
    model = b"".join(
        field(1, field(1, piece.encode()) + field(2, float(score)) + field(3, kind))
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
        model += field(number, b"".join(field(*each) for each in specification.items()))
    return model


def field(number: int, value: bytes | float) -> bytes:
    """Returns a field of a protocol buffer.

    The modules of sentencepiece and of TensorFlow Serving for this need another protobuf than
    TensorFlow has.
    """
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value % 2**64)


def _varint(number: int) -> bytes:
    """Returns an unsigned number, seven bits a byte, the last byte below 128."""
    least, more = number & 127, number >> 7
    return bytes([least | 128]) + _varint(more) if more else bytes([least])


def _package() -> Any:
    """Returns the package sentencepiece.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            "Expected the package sentencepiece, for SentencePiece models. Received: no such "
            "package. Install it: pip install 't2t_repro[sentencepiece]'."
        ) from error
    return sentencepiece
