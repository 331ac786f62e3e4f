"""A SentencePiece model as an encoder: its pieces behind tensor2tensor's two reserved ids.

SentencePiece numbers unknown text, begin, end and padding itself, each model otherwise. Here 0 pads
and 1 ends, as everywhere; the model's pieces follow in its order, the one for unknown text too,
and its begin, end and padding have no ids.
"""

import os
import pathlib
from collections.abc import Iterable
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import NUM_RESERVED_TOKENS, RESERVED_TOKENS, TextEncoder


class SentencePieceEncoder(TextEncoder):
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
        sentencepiece = package(f"which reads {os.fspath(filename)}")
        self._processor: Any = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(self.model)
        except (RuntimeError, TypeError, ValueError):
            raise UserError(
                "Expected a SentencePiece model, or tensor2tensor's subwords one a line. Received: "
                f"{os.fspath(filename)}, which is neither. Give spm_train's .model file."
            ) from None
        kept = self._processor.GetPieceSize()
        #: The model's own ids of ours, from NUM_RESERVED_TOKENS on.
        self.own_ids = [i for i in range(kept) if not self._processor.IsControl(i)]
        self._ids = {own: i for i, own in enumerate(self.own_ids, start=NUM_RESERVED_TOKENS)}
        pieces = map(self._processor.IdToPiece, self.own_ids)
        self.all_subtoken_strings = (*RESERVED_TOKENS, *pieces)

    @property
    def vocab_size(self) -> int:
        return len(self.all_subtoken_strings)

    def encode(self, text: str) -> list[int]:
        return [self._ids[i] for i in self._processor.EncodeAsIds(text)]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Returns the text of `ids`; reserved ids and those outside the vocabulary say nothing.

        A model whose words end with the sign for a blank leaves one at the end, which is cut off.
        """
        within = range(NUM_RESERVED_TOKENS, self.vocab_size)
        own = [self.own_ids[i - NUM_RESERVED_TOKENS] for i in ids if i in within]
        return self._processor.DecodeIds(own).rstrip(" ") if own else ""

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        size = self.vocab_size
        return [self.all_subtoken_strings[i] if 0 <= i < size else "" for i in ids]


def package(doing: str) -> Any:
    """Returns the package sentencepiece.

    Args:
        doing: what it does, for the message.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            f"Expected the package sentencepiece, {doing}. Received: none is installed. Install it "
            "by pip install 't2t_repro[sentencepiece]'."
        ) from error
    return sentencepiece
