"""Which pairs are there again: a hash of 64 bits for each line, so that millions fit into memory.

Lines that differ in case alone are the same. Two different lines of ten million share a hash once
in some hundred thousand corpora.
"""

import array
import dataclasses

import numpy as np

from t2t_repro.corpora.checks.block import Block

TRAIN = "train"
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
