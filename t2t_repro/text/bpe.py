"""Byte-pair encoding learnt of text (Sennrich et al. 2016), as the paper's vocabularies.

SentencePiece learns the merges: of words between blanks, whose end is a symbol of its own, none
across letters, figures and punctuation. They are written as `bpe_codes` writes those of
subword-nmt; the rarest characters, together one in 2,000 of the text, are
spelled by their bytes.
"""

import io
import os
from collections.abc import Iterable

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import bpe_codes
from t2t_repro.text.sentence_piece import package

_COVERAGE = 0.9995  # of the characters
_BYTES, _CHARACTERS = 257, 4000  # pieces besides the merges: exactly, and at most


def learn(path: str | os.PathLike, texts: Iterable[str], merges: int) -> int:
    """Writes a SentencePiece model of the best merges of texts; returns how many they are.

    Args:
        path: the file.
        texts: lines.
        merges: how many there may be; a short text has fewer.

    Raises:
        UserError: if the package sentencepiece is not installed, or there is no text.
    """
    sentencepiece = package(f"which learns {os.fspath(path)}")
    learnt = io.BytesIO()
    try:
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
    except RuntimeError as error:
        raise UserError(
            f"Expected text to learn byte pairs of. Received: none, for {os.fspath(path)}: {error}."
        ) from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=learnt.getvalue())
    numbers = range(processor.GetPieceSize())
    own = [i for i in numbers if not (processor.IsByte(i) or processor.IsUnknown(i))]
    pieces = [processor.IdToPiece(i) for i in own]
    characters = [piece for piece in pieces if len(piece) == 1]
    joined = [piece for piece in pieces if len(piece) > 1]
    # The end of a word joins a character by a merge here; in subword-nmt it is part of it.
    made = [piece for piece in joined if len(piece.removesuffix(bpe_codes.BLANK)) > 1]
    left_out = set(made[merges:])
    with writing(path, "wb") as file:
        kept = [piece for piece in joined if piece not in left_out]
        file.write(bpe_codes.serialized(characters, kept))
    return len(made) - len(left_out)
