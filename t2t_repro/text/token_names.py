"""A name for each id of a vocabulary, for files in which blanks stand between names."""

from typing import Any

from t2t_repro.text.encoders import NUM_RESERVED_TOKENS, RESERVED_TOKENS, TokenTextEncoder
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.transfer import pieces_of

_ESCAPED = str.maketrans({" ": "\\32;", "\t": "\\9;"})  # as T2T escapes what no alphabet has


def tokens_of(encoder: Any, vocab_size: int) -> list[str]:
    """Returns a name for each id: the subtoken or token where there is one, each name once.

    Args:
        encoder: a TextEncoder.
        vocab_size: the rows of the model's table, which may be more than the encoder has ids.
    """
    names = list(RESERVED_TOKENS)
    known = isinstance(encoder, SubwordTextEncoder | SentencePieceEncoder | TokenTextEncoder)
    texts = pieces_of(encoder) if known else ()
    seen = set(names)
    for i in range(NUM_RESERVED_TOKENS, vocab_size):
        name = without_blanks(texts[i]) if i < len(texts) else ""
        if not name or name in seen or "\n" in name or name.startswith("<id_"):
            name = f"<id_{i}>"  # also of what is spelled like the name of another id
        seen.add(name)
        names.append(name)
    return names


def without_blanks(text: str) -> str:
    """Returns a subtoken with its blanks escaped."""
    return text.translate(_ESCAPED)
