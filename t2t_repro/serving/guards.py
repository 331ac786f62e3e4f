"""What a translation looks like that is likely to be wrong, as strings alone can tell."""

import enum
import re

from t2t_repro.corpora.checks.block import Block, Side
from t2t_repro.corpora.checks.characters import copied

TIMES = 3  # in a row, and it is a repetition
PHRASE = 8  # words of a phrase that is repeated, at most
_STUTTER = re.compile(r"([^\W\d_]{2,8}?)\1{4}")  # five times
RATIO = 3.0  # of the lengths in UTF-8, in which no script is much denser than another
SHORT_BYTES = 20  # by which short texts may differ besides


class Guard(enum.StrEnum):
    """A reason to beware of a translation."""

    REPETITION = "repetition"
    LENGTH_RATIO = "length_ratio"
    COPY = "copy"
    EMPTY = "empty"


def guards(source: str, translation: str) -> list[Guard]:
    """Returns the reasons to beware of a sentence's translation."""
    if not translation.strip():
        return [Guard.EMPTY] if source.strip() else []
    one, other = Side([source]), Side([translation])
    found = {
        Guard.REPETITION: _repeats(other.tokens) and not _repeats(one.tokens),
        Guard.LENGTH_RATIO: _is_long(source, translation) or _is_long(translation, source),
        Guard.COPY: copied(Block("", 0, one, other), None)[0],
    }
    return [guard for guard, is_so in found.items() if is_so]


def _is_long(text: str, other: str) -> bool:
    length, of_other = len(text.encode()), len(other.encode())
    return length > RATIO * of_other + SHORT_BYTES


def _repeats(words: list[str]) -> bool:
    """Whether a phrase stands TIMES times in a row, or a part of a word more often."""
    if any(map(_STUTTER.search, words)):
        return True
    for size in range(1, PHRASE + 1):
        same = 0  # words that are those `size` before them
        for before, word in zip(words, words[size:], strict=False):
            same = same + 1 if word == before else 0
            if same == (TIMES - 1) * size:
                return True
    return False
