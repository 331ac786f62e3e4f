"""The language of a line: by models of the corpus itself, and by py3langid.

Counts of character trigrams of each side tell which side a line belongs to, even a short one: that
finds swapped or untranslated sides. A line whose trigrams are rare on its own side may be in a
third language: then py3langid decides. Words that both sides share, such as names, decide nothing.
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable

import numpy as np

from t2t_repro.corpora.checks.block import Block, Side

BUCKETS = 1 << 16  # for the hashes of three characters
_SWAPPED, _OTHER_SIDE = 12.0, 14.0  # nats of a line; neighbours share characters: a third of it
_EACH = 0.4  # nats of a character, on the average
_STRANGE = 3.0  # deviations below the median
_UNLIKELY, _LETTERS = 0.01, 20  # of the likeliest by py3langid, and how much it must have seen
_IDENTIFIED = 500  # lines by which py3langid says what the languages are
_LEARNED = 1000  # characters of a line, so that a very long one says no more than others
# Where a group of scripts begins, and which group that is, Latin 0; -1: no letter of interest.
_BEGINS = (
    *(0x0, 0x41, 0x370, 0x400, 0x530, 0x590, 0x600, 0x780, *range(0x900, 0xE00, 0x80), 0xE00),
    *(0xF00, 0x1000, 0x10A0, 0x1100, 0x1200, 0x1380, 0x1780, 0x1800, 0x1E00, 0x1F00, 0x2000),
    *(0x2E80, 0xAC00, 0xD7B0, 0xF900, 0xFB00, 0xFB50, 0xFE00, 0xFE70, 0xFF00, 0x20000),
)
_SAME = {0x1E00: 0x41, 0x1F00: 0x370, 0xF900: 0x2E80, 0x20000: 0x2E80, 0xFB50: 0x600, 0xFE70: 0x600}
_NO_LETTERS = {0x0, 0x2000, 0xFE00, 0xFF00}
_WORD = re.compile(r"[^\W\u2e80-\U0002ffff]+|[^\W\0-\u2e7f]+|[^\w\s]+")  # names in Chinese, too
_GROUPS = np.array(
    [-1 if b in _NO_LETTERS else _BEGINS.index(_SAME.get(b, b)) - 1 for b in _BEGINS]
)


@dataclasses.dataclass(frozen=True)
class Languages:
    """The models of the two sides.

    Attributes:
        odds: float32 (BUCKETS,): log of how much likelier three characters are in a source.
        logs: for each side float32 (BUCKETS,): the log of their probability.
        typical: for each side, median and deviation of the mean of `logs` over a line.
        names: the language of each side by py3langid, such as "en"; "": unknown.
        scripts: for each side the groups of _GROUPS that are its own.
    """

    odds: np.ndarray
    logs: tuple[np.ndarray, np.ndarray]
    typical: tuple[tuple[float, float], tuple[float, float]]
    names: tuple[str, str]
    scripts: tuple[frozenset[int], frozenset[int]]

    @property
    def same(self) -> bool:
        """Whether both sides seem to be in one language."""
        return bool(self.names[0]) and self.names[0] == self.names[1]


def fit(block: Block) -> Languages:
    """Returns the model of a sample."""
    block = block.cut(_LEARNED)
    hashes = [_trigrams(side) for side in block.sides]
    weights = np.ones(len(block))
    for _ in range(3):  # without the pairs that then seem to be swapped
        counts = []
        for side, hashed in zip(block.sides, hashes, strict=True):
            each = np.repeat(weights, np.diff(np.r_[side.starts, len(side.codes)]))
            counts.append(np.bincount(hashed, each, BUCKETS) + 0.2)
        logs = [np.log(count / count.sum()).astype(np.float32) for count in counts]
        odds = logs[0] - logs[1]
        scores = block.sources.sums(odds[hashes[0]]) - block.targets.sums(odds[hashes[1]])
        weights = (scores > 0).astype(float)
        if not weights.any():
            break
    typical = []
    for side, hashed, log in zip(block.sides, hashes, logs, strict=True):
        means = side.sums(log[hashed]) / (side.lengths + 1)
        median = float(np.median(means))
        typical.append((median, 1.4826 * float(np.median(np.abs(means - median))) + 1e-6))
    return Languages(
        odds,
        (logs[0], logs[1]),
        (typical[0], typical[1]),
        (_main_language(block.sources), _main_language(block.targets)),
        (_main_scripts(block.sources), _main_scripts(block.targets)),
    )


def swapped(block: Block, known: Languages) -> np.ndarray:
    """Returns bool (N,): the source seems to belong to the target's side, and vice versa."""
    sources, targets = _odds(block, known)
    characters = block.sources.lengths + block.targets.lengths
    surely = targets - sources > np.maximum(_SWAPPED, _EACH * characters)
    return (sources < 0) & (targets > 0) & surely & (not known.same)


def _without_names(find: Callable[[Block, Languages], np.ndarray]):
    """Returns a check whose findings hold without the words that both sides share, too: names,
    links and quotations say nothing of the language of a side."""

    def confirmed(block: Block, known: Languages) -> np.ndarray:
        found = find(block, known)
        at = np.flatnonzero(found)
        if len(at):
            pairs = (_unshared(*(side.texts[i] for side in block.sides)) for i in at)
            sides = zip(*pairs, strict=True)
            found[at] = find(Block(block.split, block.first, *map(Side, map(list, sides))), known)
        return found

    return confirmed


def _unshared(*pair: str) -> list[str]:
    """Returns both sides without the words that are in both."""
    source, target = (set(_WORD.findall(text.lower())) for text in pair)
    others = source ^ target
    left = (_WORD.sub(lambda w: w[0] * (w[0].lower() in others), text) for text in pair)
    return [" ".join(text.split()) for text in left]


@_without_names
def wrong_language(block: Block, known: Languages) -> np.ndarray:
    """Returns bool (N,): one side is of the other's language, or of a third."""
    sources, targets = _odds(block, known)
    least = [np.maximum(_OTHER_SIDE, _EACH * side.lengths) for side in block.sides]
    other = (sources < -least[0]) & (targets < 0) | (targets > least[1]) & (sources > 0)
    other &= not known.same
    for number, side in enumerate(block.sides):
        if not known.names[number]:
            continue
        means = side.sums(known.logs[number][_trigrams(side)]) / (side.lengths + 1)
        median, deviation = known.typical[number]
        strange = (means < median - _STRANGE * deviation) & (side.lengths >= _LETTERS) & ~other
        for i in np.flatnonzero(strange):
            likely = dict(_identifier().rank(side.texts[i]))
            ours = max(likely.get(name, 0) for name in known.names)
            other[i] |= ours < _UNLIKELY * max(likely.values())
    return other


@_without_names
def wrong_script(block: Block, known: Languages) -> np.ndarray:
    """Returns bool (N,): most letters of a side are of a script that is not that side's."""
    found = np.zeros(len(block), bool)
    for side, own in zip(block.sides, known.scripts, strict=True):
        if not (side.is_ascii and 0 in own):
            foreign, letters = (side.sums(each.astype(int)) for each in _foreign(side.codes, own))
            found |= 2 * foreign > np.maximum(letters, 8)
    return found


def _odds(block: Block, known: Languages) -> tuple[np.ndarray, np.ndarray]:
    sources, targets = (side.sums(known.odds[_trigrams(side)]) for side in block.sides)
    return sources, targets


@functools.lru_cache(maxsize=2)  # both sides of a block, for all checks that ask
def _trigrams(side: Side) -> np.ndarray:
    """Returns, for each code, a hash of it and the next two; of other characters than digits."""
    codes = side.codes.astype(np.uint32)
    codes = np.where((codes >= 48) & (codes < 58), np.uint32(48), codes)
    codes = np.r_[codes, codes[-1:], codes[-1:]]
    mixed = codes[:-2] * np.uint32(0x9E3779B1) + codes[1:-1] * np.uint32(0x85EBCA77)
    mixed = (mixed + codes[2:] * np.uint32(0xC2B2AE3D)) * np.uint32(0x27D4EB2F)
    return mixed >> np.uint32(16)


def _groups(codes: np.ndarray) -> np.ndarray:
    """Returns the group of scripts of each code; -1: no letter."""
    groups = _GROUPS[np.searchsorted(np.array(_BEGINS, np.uint32), codes, "right") - 1]
    ascii_letter = (codes >= 97) & (codes <= 122)  # they are in lower case
    return np.where((codes < 0xC0) & ~ascii_letter, -1, groups)


def _foreign(codes: np.ndarray, own: frozenset[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns which codes are letters of other groups of scripts, and which are letters."""
    groups = _groups(codes)
    return (groups >= 0) & ~np.isin(groups, list(own)), groups >= 0


def _main_scripts(side: Side) -> frozenset[int]:
    counts = np.bincount(_groups(side.codes) + 1)[1:]  # -1: no letter
    return frozenset(np.flatnonzero(counts > 0.1 * max(1, counts.sum())).tolist())


def _main_language(side: Side) -> str:
    texts = [text for text in side.texts if len(text) >= _LETTERS][:_IDENTIFIED] or side.texts[:9]
    counts = Counter(_identifier().classify(text)[0] for text in texts)
    return next((name for name, count in counts.items() if count > len(texts) / 2), "")


def load_identifier():
    """Returns py3langid's identifier, of all the languages that it knows."""
    from py3langid import langid  # its model takes a moment to load

    return langid._load_identifier(norm_probs=True)


_identifier = functools.cache(load_identifier)
