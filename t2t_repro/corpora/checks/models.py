"""What is learned of a corpus in a first pass, and used on every pair in the second.

Which pairs are there again is told by a hash of 64 bits for each line, so that millions fit into
memory. Lines that differ in case alone are the same. Two different lines of ten million share a
hash once in some hundred thousand corpora.
"""

import array
import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

from t2t_repro.corpora.checks import languages, lengths, lexical
from t2t_repro.corpora.checks.block import Block, Pair, Side

TRAIN = "train"
SAMPLE = 40_000  # pairs, from all over the training split
_ESCAPED, _PLAIN = re.compile(r"& ?(?:apos|quot) ?;"), re.compile(r"['\"]|& ?#(?:34|39) ?;")
_TAG = re.compile(r"<[^<>\n]*>")
_PRIMES = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_NOTHING = np.uint64(hash(""))


@dataclasses.dataclass(frozen=True)
class Repeated:
    """What is there again of a split's N pairs, each bool (N,).

    Attributes:
        pair: an earlier pair of the split is the same.
        in_held_out: a pair of dev or test is the same; only in train.
    """

    pair: np.ndarray
    in_held_out: np.ndarray


@dataclasses.dataclass(frozen=True)
class Models:
    """What is known of a corpus.

    Attributes:
        repeated: {split: which of its pairs are there again}.
        ratio: how the lengths of two sides go together.
        language: which side a line belongs to.
        lexicon: which words go with which.
        moses_escaped: for each side, whether it is written as Moses' tokenizer does: there
            &apos; is no markup that was left over.
    """

    repeated: Mapping[str, Repeated]
    ratio: lengths.Ratio
    language: languages.Languages
    lexicon: lexical.Lexicon
    moses_escaped: tuple[bool, bool]


class Fingerprints:
    """The hashes of all lines, collected block by block."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[array.array, array.array]] = {}  # of sources, and of pairs

    def add(self, block: Block) -> None:
        """Takes the lines of a block."""
        sources, targets = (
            np.fromiter(map(hash, side.lower.split("\n")), np.int64, len(block)).view(np.uint64)
            for side in block.sides
        )
        there = self._hashes.setdefault(block.split, (array.array("Q"), array.array("Q")))
        there[0].frombytes(sources.tobytes())
        there[1].frombytes(_paired(sources, targets).tobytes())

    def repeated(self) -> dict[str, Repeated]:
        """Returns {split: what is there again}."""
        hashes = {
            split: tuple(np.frombuffer(each, np.uint64) for each in both)
            for split, both in self._hashes.items()
        }
        held_out = [pairs for split, (_, pairs) in hashes.items() if split != TRAIN]
        found = {}
        for split, (sources, pairs) in hashes.items():
            full = sources != _NOTHING
            others = held_out if split == TRAIN else []
            found[split] = Repeated(_again(pairs) & full, _are_in(pairs, others) & full)
        return found


class Sample:
    """Every so many pairs, as many as SAMPLE at most."""

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

    def block(self, most: int | None = None) -> Block:
        """Returns them, or as many from all over them."""
        step = 1 if most is None else max(1, -(-len(self._pairs) // max(1, most)))
        pairs = [pair for pair in self._pairs[::step] if all(map(str.strip, pair))] or [("", "")]
        sources, targets = map(list, zip(*pairs, strict=True))
        return Block(TRAIN, 0, Side(sources), Side(targets))


def fit(blocks: Iterable[Block]) -> Models:
    """Returns what all blocks of a corpus tell."""
    fingerprints, sample = Fingerprints(), Sample()
    for block in blocks:
        fingerprints.add(block)
        if block.split == TRAIN:
            sample.add(block)
    repeated = fingerprints.repeated()
    del fingerprints  # before the models take their part of the memory
    every = sample.block()
    some = sample.block(1000)
    words = [len(side.tokens) / len(some) for side in some.sides]
    few = sample.block(int(lexical.MOST / max(1.0, 1.3 * words[0] * words[1])))
    escaped = tuple(map(_is_moses_escaped, every.sides))
    return Models(
        repeated,
        lengths.fit(every),
        languages.fit(every),
        lexical.fit(few),
        (escaped[0], escaped[1]),
    )


def _is_moses_escaped(side: Side) -> bool:
    """Tells by spaces before full stops, and by quotes, most of which must be escaped."""
    ends = [text for text in side.texts if text.endswith((".", "?", "!"))]
    tokenized = sum(text[-2:-1] == " " for text in ends) > len(ends) / 2
    text = _TAG.sub(" ", side.joined)
    escaped, plain = (len(each.findall(text)) for each in (_ESCAPED, _PLAIN))
    return tokenized and escaped > plain


def _paired(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    mixed = sources * _PRIMES[0]
    return (mixed ^ (mixed >> np.uint64(29))) + targets * _PRIMES[1]


def _again(hashes: np.ndarray) -> np.ndarray:
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    again = np.zeros(len(hashes), bool)
    again[order[1:]] = ordered[1:] == ordered[:-1]
    return again


def _are_in(hashes: np.ndarray, others: list[np.ndarray]) -> np.ndarray:
    there = np.unique(np.concatenate(others)) if others else hashes[:0]
    if not len(there):
        return np.zeros(len(hashes), bool)
    return there[np.minimum(np.searchsorted(there, hashes), len(there) - 1)] == hashes
