"""Checks of characters: empty sides, copies, control characters, markup, encodings."""

import re

import ftfy
import numpy as np

from t2t_repro.corpora.checks.block import UNSPACED, Block, Side
from t2t_repro.corpora.checks.models import Models
from t2t_repro.text.tokenizer import SINGLE

# Joiners and direction marks (U+200C to U+200F) belong to other scripts than the first ones.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\xad\u034f\u061c\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\t]|(?:^|[\x20-\u052f])[\u200c-\u200f]",
    re.MULTILINE,  # it is looked for in many lines at once, too
)
# Letters, and what belongs to a line that has such: direction marks, a space without width.
_ORDINARY = (
    (
        re.compile("[\u05d0-\u05f2\u0620-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"),
        re.compile("[\u061c\u200c-\u200f\u202a-\u202e\u2066-\u2069]"),
    ),
    (UNSPACED, re.compile("\u200b")),
)
_MARKUP = re.compile(
    r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>|<!--|<!\[CDATA|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}"
    r"|[A-Za-z][A-Za-z0-9]{1,30});"
)
_MOSES = re.compile(r"& ?(?:apos|quot|amp|lt|gt|#91|#93|#124) ?;")  # what its tokenizer writes
# UTF-8 read as Latin-1, Windows-1252 or the like begins with one of the first letters.
_MISREAD = re.compile(
    "[\xc2-\xf4\u0102-\u0111\u0413\u0420-\u0421\u0432-\u0433][\x80-\xbf\u0152-\u0178\u017d\u017e\u0192\u02c6\u02dc\u0400-\u045f"
    "\u0490\u0491\u2013-\u2044\u20ac\u2116\u2122]|[\x80-\x84\x86-\x9f\ufffd]"
)
_LETTERS = re.compile(r"[^\W\d_]")
_SHORT = 3  # words: a name, a number with its unit; such pairs may well be equal
_BROKEN = re.compile("[\x80-\x84\x86-\x9f\ufffd]")


def one_side_empty(block: Block, models: Models) -> np.ndarray:
    sources, targets = (_blank(side) for side in block.sides)
    return sources != targets


def both_sides_empty(block: Block, models: Models) -> np.ndarray:
    sources, targets = (_blank(side) for side in block.sides)
    return sources & targets


def copied(block: Block, models: Models | None) -> np.ndarray:
    """Both sides are the same, and longer than _SHORT words; in scripts without spaces as long."""
    found = np.zeros(len(block), bool)
    sources, targets = (side.spelled for side in block.sides)
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if source == target and _LETTERS.search(source):
            text = block.sources.texts[i]
            as_long = len(text) > 8 * _SHORT and SINGLE.search(text) is not None
            found[i] = len(text.split()) > _SHORT or as_long
    return found


def invisible(block: Block, models: Models) -> np.ndarray:
    def has(side: Side) -> np.ndarray:
        if side.joined.replace("\n", "").isprintable():  # many times faster; most blocks are
            return np.zeros(len(side.texts), bool)
        found = side.having(_INVISIBLE)
        for i in np.flatnonzero(found):
            found[i] = _INVISIBLE.search(_without_ordinary(side.texts[i])) is not None
        return found

    return has(block.sources) | has(block.targets)


def markup(block: Block, models: Models) -> np.ndarray:
    found = np.zeros(len(block), bool)
    for side, escaped in zip(block.sides, models.moses_escaped, strict=True):
        if "<" not in side.joined and "&" not in side.joined:
            continue
        for i, text in enumerate(side.texts):
            if "<" in text or "&" in text:
                text = _MOSES.sub(" ", text) if escaped else text
                found[i] |= _MARKUP.search(text) is not None
    return found


def encoding(block: Block, models: Models) -> np.ndarray:
    found = np.zeros(len(block), bool)
    for side in block.sides:
        if not side.is_ascii:
            for i in np.flatnonzero(side.having(_MISREAD)):
                text = side.texts[i]
                found[i] |= bool(_BROKEN.search(text)) or ftfy.fix_encoding(text) != text
    return found


def _without_ordinary(text: str) -> str:
    for letters, marks in _ORDINARY:
        if letters.search(text):
            text = marks.sub("", text)
    return text


def _blank(side: Side) -> np.ndarray:
    return np.fromiter((not text.strip() for text in side.texts), bool, len(side.texts))
