"""The pieces of a vocabulary: their names, and the ids of a parent's vocabulary that form each.

A piece in both is the parent's. A new one is cut into the parent's pieces, as the parent would have
read it; its row begins as the mean of their rows (Gee et al. 2022, "Fast Vocabulary Transfer for
Language Model Compression").
"""

from t2t_repro.text.encoders import (
    NUM_RESERVED_TOKENS,
    RESERVED_TOKENS,
    TextEncoder,
    TokenTextEncoder,
)
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder

_ESCAPED = str.maketrans({" ": "\\32;", "\t": "\\9;"})  # as T2T escapes what no alphabet has


def pieces_of(encoder: TextEncoder) -> list[str]:
    """Returns the piece of each id; a user's encoder need not have `decode_list`."""
    shown = getattr(encoder, "decode_list", None) or (lambda ids: [encoder.decode(ids)])
    return [shown([i])[0] for i in range(encoder.vocab_size)]  # one by one: some reverse a list


def parts(mine: TextEncoder, parent: TextEncoder) -> list[list[int]]:
    """Returns, for each id of `mine`, the ids of `parent` whose pieces make its piece.

    One id: the parent has the piece. No id: it is unknown, or the two vocabularies are of different
    kinds.
    """
    reserved = [[i] for i in range(NUM_RESERVED_TOKENS)]
    own = pieces_of(mine)[NUM_RESERVED_TOKENS:]
    if type(mine) is not type(parent):
        return reserved + [[] for _ in own]
    if isinstance(parent, SubwordTextEncoder):
        return reserved + [parent.cut(piece) for piece in own]
    ids = {piece: i for i, piece in enumerate(pieces_of(parent)) if piece}
    longest = max(map(len, ids), default=0)
    return reserved + [_cut(piece, ids, longest) for piece in own]


def _cut(piece: str, ids: dict[str, int], longest: int) -> list[int]:
    """Cuts into the longest pieces from left to right, and skips characters without one."""
    found: list[int] = []
    start = 0
    while start < len(piece):
        end = min(len(piece), start + longest)
        while end > start and piece[start:end] not in ids:
            end -= 1
        if end > start:
            found.append(ids[piece[start:end]])
        start = max(end, start + 1)
    return found


def tokens_of(encoder: TextEncoder, vocab_size: int) -> list[str]:
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
