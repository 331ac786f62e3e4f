"""Which pairs are there again: a hash of 64 bits for each line, so that millions fit into memory.

Lines that differ in case alone are the same. Two different lines of ten million share a hash once
in some hundred thousand corpora.
"""

import array
import dataclasses

import numpy as np

from t2t_repro.corpora.checks.block import Block

TRAIN = "train"
MANY = 4  # different targets of one source
_PRIMES = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_NOTHING = np.uint64(hash(""))


@dataclasses.dataclass(frozen=True)
class Repeated:
    """What is there again of a split's N pairs, each bool (N,).

    Attributes:
        pair: an earlier pair of the split is the same.
        in_held_out: a pair of dev or test is the same; only in train.
        source_in_held_out: a pair of dev or test has the same source; only in train.
        source_in_other: a pair of a split before this one, of dev and test, has the same source.
        many_targets: its source has MANY different targets.
    """

    pair: np.ndarray
    in_held_out: np.ndarray
    source_in_held_out: np.ndarray
    source_in_other: np.ndarray
    many_targets: np.ndarray


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
        held_out = [hashes[split] for split in hashes if split != TRAIN]
        before: list[np.ndarray] = []  # sources of dev, where it is test's turn
        found = {}
        for split, (sources, pairs) in hashes.items():
            others = held_out if split == TRAIN else []
            full = sources != _NOTHING
            again = _again(pairs)
            found[split] = Repeated(
                again & full,
                _are_in(pairs, [pairs for _, pairs in others]) & full,
                _are_in(sources, [sources for sources, _ in others]) & full,
                _are_in(sources, [] if split == TRAIN else before) & full,
                _with_many(sources, again) & full,
            )
            before += [] if split == TRAIN else [sources]
        return found


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


def _with_many(sources: np.ndarray, again: np.ndarray) -> np.ndarray:
    different = np.sort(sources[~again])
    begins = np.flatnonzero(np.r_[True, different[1:] != different[:-1]])
    counts = np.diff(np.r_[begins, len(different)])
    return _are_in(sources, [different[begins[counts >= MANY]]])
