"""What of a sentence must be in its translation as well, or must not."""

import re
from collections import Counter

import numpy as np

from t2t_repro.corpora.checks.block import Block
from t2t_repro.corpora.near_duplicates import SINGLE

_NUMBER = re.compile(r"\d+(?:[.,\u00a0\u202f' ]\d{3})*(?:[.,]\d+)?")
_DATE = re.compile(r"\b(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})\b(?![.,]\d)")
_CLOCK = re.compile(r"\b(\d{1,2})(?:: ?| ?h ?)(\d{2})(?!\d)")
_AFTERNOON = re.compile(r"\b(1?\d)((?:\.\d{2})?) ?p\.? ?m\b", re.IGNORECASE)
_ROUND = re.compile(r"(?<=\d)[.,]00(?!\d)")
_LETTERS = re.compile(r"[^\W\d_]")
_ASKING = ("?", "\uff1f", "\u061f")
_QUESTIONS = (*_ASKING, "\u037e", ";")  # Greek asks with these two
_BEHIND = " \"'\u201c\u201d\u2019\u00bb\u00ab)"
SHORT = 3  # words: a name, a number with its unit; such pairs may well be equal


def copied(block: Block) -> np.ndarray:
    """Returns bool (N,): both sides are the same, and have letters."""
    sources, targets = (side.lower.split("\n") for side in block.sides)
    pairs = zip(sources, targets, strict=True)
    found = (s == t and _LETTERS.search(s) is not None for s, t in pairs)
    return np.fromiter(found, bool, len(block))


def copied_sentence(block: Block) -> np.ndarray:
    """Returns bool (N,): as `copied`, and longer than SHORT words; in scripts without spaces as
    long."""
    found = copied(block)
    for i in np.flatnonzero(found):
        text = block.sources.texts[i]
        as_long = len(text) > 8 * SHORT and SINGLE.search(text) is not None
        found[i] = len(text.split()) > SHORT or as_long
    return found


def numbers_differ(block: Block) -> np.ndarray:
    """Returns bool (N,): both sides have numbers, and not the same ones.

    1,000.5 and 1.000,5 and 1 000,5 are the same, 1.5.1993 and 1 May 1993, and 1.30 p.m. and 13:30.
    Languages write small ones as words, so that one that is missing says nothing.
    """
    found = np.zeros(len(block), bool)
    digits = (side.sums((side.codes >= 48) & (side.codes <= 57)) for side in block.sides)
    both = np.logical_and(*digits)
    for i in np.flatnonzero(both):
        sources, targets = (_numbers(side.texts[i]) for side in block.sides)
        found[i] = bool(sources - targets) and bool(targets - sources)
    return found


def question_differs(block: Block) -> np.ndarray:
    """Returns bool (N,): one side ends as a question, and the other has no question mark."""
    found = np.zeros(len(block), bool)
    for side, other in (block.sides, block.sides[::-1]):
        for i, text in enumerate(side.texts):
            if any(map(text.__contains__, _ASKING)) and text.rstrip(_BEHIND).endswith(_ASKING):
                found[i] |= not any(mark in other.texts[i] for mark in _QUESTIONS)
    return found


def _numbers(text: str) -> Counter[str]:
    text = _CLOCK.sub(r"\1.\2", _DATE.sub(r"\1 / \2 / \3", text))
    text = _AFTERNOON.sub(lambda time: f"{int(time[1]) % 12 + 12}{time[2]}", text)
    text = _ROUND.sub("", text)
    return Counter(re.sub(r"\D", "", number).lstrip("0") for number in _NUMBER.findall(text))
