"""Models of a corpus, made in a first pass and used on every pair in the second.

Repeated pairs are found by a 64-bit hash of each, so that millions fit into memory. Lines that
differ in case, or in how Unicode writes the same letters, are the same. Two different pairs of ten
million share a hash once in some hundred thousand corpora.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

from t2t_repro.corpora.checks import languages, lexical
from t2t_repro.corpora.checks.block import Block, Pair, Side

TRAIN = "train"
SAMPLE = 40_000  # pairs, from all over the training split
_SHORT = 20  # characters of a pair, such as "Yes." and "Ja.", that may well be in two splits
_FAR = 5.0  # deviations of a length
_TIMES = 2.0  # at least so many times as long as is usual
_ESCAPED, _PLAIN = re.compile(r"& ?(?:apos|quot) ?;"), re.compile(r"['\"]|& ?#(?:34|39) ?;")
_TAG = re.compile(r"<[^<>\n]*>")


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How the lengths of two sides go together.

    Attributes:
        usual: the median of characters of the target for one of the source.
        deviation: of the difference to that, for the root of the characters of both.
    """

    usual: float
    deviation: float


@dataclasses.dataclass(frozen=True)
class Models:
    """The models of a corpus.

    Attributes:
        repeated: {split: bool (N,)}: an earlier pair of the split is the same.
        in_held_out: bool (N,): a pair of dev or test is the same as this one of train.
        ratio: how the lengths of two sides go together.
        language: which side a line belongs to.
        lexicon: which words go with which.
        moses_escaped: for each side, whether it is tokenized by Moses, so that &apos; is no markup.
        decomposed: float64 (2,): for each side, the share of lines whose letters are not composed
            (NFC).
    """

    repeated: Mapping[str, np.ndarray]
    in_held_out: np.ndarray
    ratio: Ratio
    language: languages.Languages
    lexicon: lexical.Lexicon
    moses_escaped: tuple[bool, bool]
    decomposed: np.ndarray


class Sample:
    """Evenly spaced pairs, at most SAMPLE."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._step, self._seen = 1, 0

    def add(self, block: Block) -> None:
        """Takes some of a block's pairs."""
        first = -self._seen % self._step
        texts = (side.texts[first :: self._step] for side in block.sides)
        self._pairs += zip(*texts, strict=True)
        self._seen += len(block)
        while len(self._pairs) > SAMPLE:
            self._pairs, self._step = self._pairs[::2], 2 * self._step

    def block(self, most: int = SAMPLE) -> Block:
        """Returns them, or as many from all over them."""
        step = max(1, -(-len(self._pairs) // max(1, most)))
        pairs = [pair for pair in self._pairs[::step] if all(map(str.strip, pair))] or [("", "")]
        sources, targets = map(list, zip(*pairs, strict=True))
        return Block(TRAIN, 0, Side(sources), Side(targets))


def fit(blocks: Iterable[Block]) -> Models:
    """Returns the models of all blocks of a corpus."""
    hashes: dict[str, list[np.ndarray]] = {}
    sample, decomposed, lines = Sample(), np.zeros(2), 0
    for block in blocks:
        decomposed += [side.decomposed for side in block.sides]
        lines += len(block)
        hashes.setdefault(block.split, []).append(_hashes(block))
        if block.split == TRAIN:
            sample.add(block)
    again = _again({split: np.concatenate(each) for split, each in hashes.items()})
    del hashes  # before the models take their part of the memory
    every = sample.block()
    some = sample.block(1000)
    words = [len(side.tokens) / len(some) for side in some.sides]
    few = sample.block(int(lexical.MOST / max(1.0, 1.3 * words[0] * words[1])))
    escaped = (_is_moses_escaped(every.sources), _is_moses_escaped(every.targets))
    shares = decomposed / max(1, lines)
    return Models(*again, _ratio(every), languages.fit(every), lexical.fit(few), escaped, shares)


def duplicate(block: Block, models: Models) -> np.ndarray:
    """Returns bool (N,): the pair was there before."""
    found = models.repeated[block.split][block.first : block.first + len(block)]
    return found & (block.sources.lengths > 0)


def leaked(block: Block, models: Models) -> np.ndarray:
    """Returns bool (N,): the pair is in dev or test too."""
    if block.split != TRAIN:
        return np.zeros(len(block), bool)
    found = models.in_held_out[block.first : block.first + len(block)]
    return found & (block.sources.lengths + block.targets.lengths > _SHORT)


def unusual_ratio(block: Block, ratio: Ratio) -> np.ndarray:
    """Returns bool (N,): one side is much longer than the other, for this corpus and that length.

    The difference of two lengths grows with their root (Gale and Church, 1993, section 3.1).
    """
    sources, targets = (side.lengths for side in block.sides)
    far = np.abs(_difference(sources, targets, ratio.usual)) > _FAR * ratio.deviation
    times = (targets + 1) / (ratio.usual * sources + 1)
    return far & ((times > _TIMES) | (times < 1 / _TIMES)) & (sources > 0) & (targets > 0)


def _ratio(block: Block) -> Ratio:
    sources, targets = (side.lengths for side in block.sides)
    there = (sources > 0) & (targets > 0)
    if not there.any():
        return Ratio(1.0, 1.0)
    sources, targets = sources[there], targets[there]
    usual = float(np.median(targets / sources))
    differences = np.abs(_difference(sources, targets, usual))
    return Ratio(usual, max(0.5, 1.4826 * float(np.median(differences))))


def _difference(sources: np.ndarray, targets: np.ndarray, usual: float) -> np.ndarray:
    return (targets - usual * sources) / np.sqrt(targets + usual * sources + 1)


def _is_moses_escaped(side: Side) -> bool:
    """Returns whether a side is Moses': spaces before full stops, and quotes mostly escaped."""
    ends = [text for text in side.texts if text.endswith((".", "?", "!"))]
    tokenized = sum(text[-2:-1] == " " for text in ends) > len(ends) / 2
    text = _TAG.sub(" ", side.joined)
    escaped, plain = (len(each.findall(text)) for each in (_ESCAPED, _PLAIN))
    return tokenized and escaped > plain


def _hashes(block: Block) -> np.ndarray:
    """Returns int64 (N,): of the pairs."""
    pairs = zip(*(side.spelled for side in block.sides), strict=True)
    return np.fromiter(map(hash, pairs), np.int64, len(block))


def _again(hashes: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns `Models.repeated` and `in_held_out` of {split: its `_hashes`}."""
    repeated = {}
    for split, pairs in hashes.items():
        repeated[split] = np.ones(len(pairs), bool)
        repeated[split][np.unique(pairs, return_index=True)[1]] = False
    train = hashes.pop(TRAIN, np.zeros(0, np.int64))
    return repeated, np.isin(train, np.concatenate([train[:0], *hashes.values()]))
