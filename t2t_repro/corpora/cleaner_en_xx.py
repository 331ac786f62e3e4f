"""T2T's rules for clean pairs of an English sentence and one of another language.

They keep text that looks like whole English sentences, and do not judge the other language; a pair
of several sentences becomes several pairs. From T2T's data_generators/cleaner_en_xx.py.
"""

import re
from collections.abc import Iterable, Iterator

Pair = tuple[str, str]

_STARTS_LIKE_A_SENTENCE = re.compile(r'["“”]?[A-Z]')
_ENDS_LIKE_A_SENTENCE = re.compile(r'\w[.!?]["”]?$')
_DOUBLE_QUOTES = re.compile('["“”]')
_QUOTED_AS_A_WHOLE = re.compile('["“”].*["“”]$')
_NOISE = [
    re.compile(pattern)
    for pattern in (
        r"^\w+\.?( \w+)?: ",  # a label: "Mr. Smith: "
        r"\d +\d",  # numbers of a table
        r"(['‘’][^st].*){3,}",  # three single quotes; those of "it's" and "isn't" do not count
        r"[\"“”'‘’]\s*[\"“”'‘’]",  # two quotes side by side
        r"\s[\"“”'‘’,:;]\s",  # punctuation alone
        r"©|^Copyright|^\(C\)",
        r"\([^)]*$",  # a parenthesis that is not closed,
        r"^[^(]*\)",  # or not opened
        r"^[A-Z]{2,}(\s+[A-Z]+)*\s+-",  # "NEW YORK -"
        r"^[A-Z]+[a-z]*_",  # "File_"
    )
]
# The blank between two sentences. What a match has taken is no part of the next one, as in T2T: of
# "b. C. D" only the first blank counts.
_ENGLISH_BREAK = re.compile(r"(?:\w[A-Z]|[0-9a-z])[.!?]( )[A-Z]")
_OTHER_BREAK = re.compile(r"[^0-9][.!?]( )[A-Z]")


def clean_en_xx_pairs(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yields the clean ones of (English, other) pairs, one sentence each.

    A pair is dropped if its English side is no clean sentence, or if the sides differ in the number
    of sentences.
    """
    for english, other in pairs:
        if not is_clean(english):
            continue
        english_parts = _sentences(english, _ENGLISH_BREAK)
        other_parts = _sentences(other, _OTHER_BREAK)
        if len(english_parts) == len(other_parts):
            for part, other_part in zip(english_parts, other_parts, strict=True):
                if len(english_parts) == 1 or is_clean(part):
                    yield part, other_part


def is_clean(english: str) -> bool:
    """Whether a text looks like English sentences, from a capital to a full stop."""
    quotes = len(_DOUBLE_QUOTES.findall(english))
    return (
        _STARTS_LIKE_A_SENTENCE.match(english) is not None
        and _ENDS_LIKE_A_SENTENCE.search(english) is not None
        and quotes in (0, 2)
        and not _QUOTED_AS_A_WHOLE.match(english)
        and not any(noise.search(english) for noise in _NOISE)
    )


def _sentences(text: str, sentence_break: re.Pattern[str]) -> list[str]:
    blanks = [match.start(1) for match in sentence_break.finditer(text)]
    starts, ends = [0, *(blank + 1 for blank in blanks)], [*blanks, len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]
