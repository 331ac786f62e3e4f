"""Which pairs are there again: a hash of 64 bits for each line, so that millions fit into memory.

Lines that differ in case alone are the same. Two different lines of ten million share a hash once
in some hundred thousand corpora.
"""

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
        many_targets: its source has MANY different targets.
    """

    pair: np.ndarray
    in_held_out: np.ndarray
    source_in_held_out: np.ndarray
    many_targets: np.ndarray


class Fingerprints:
    """The hashes of all lines, collected block by block."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}

    def add(self, block: Block) -> None:
        """Takes the lines of a block."""
        hashes = tuple(
            np.fromiter(map(hash, side.lower.split("\n")), np.int64, len(block))
            for side in block.sides
        )
        sources, targets = (each.view(np.uint64) for each in hashes)
        self._parts.setdefault(block.split, []).append((sources, _paired(sources, targets)))

    def repeated(self) -> dict[str, Repeated]:
        """Returns {split: what is there again}. May be called once: it frees the hashes."""
        lines = {
            split: tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            for split, parts in self._parts.items()
        }
        self._parts.clear()
        held_out = [lines[split] for split in lines if split != TRAIN]
        found = {}
        for split, (sources, pairs) in lines.items():
            others = held_out if split == TRAIN else []
            full = sources != _NOTHING
            found[split] = Repeated(
                _again(pairs) & full,
                _are_in(pairs, [pairs for _, pairs in others]) & full,
                _are_in(sources, [sources for sources, _ in others]) & full,
                _with_many(sources, pairs) & full,
            )
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
    if not others:
        return np.zeros(len(hashes), bool)
    there = np.unique(np.concatenate(others))
    return there[np.minimum(np.searchsorted(there, hashes), len(there) - 1)] == hashes


def _with_many(sources: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    order = np.lexsort((pairs, sources))
    ordered, of_pairs = sources[order], pairs[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    different = first | np.r_[True, of_pairs[1:] != of_pairs[:-1]]
    begins = np.flatnonzero(first)
    counts = np.add.reduceat(different, begins, dtype=np.int64) if len(begins) else begins
    many = np.zeros(len(sources), bool)
    many[order] = np.repeat(counts >= MANY, np.diff(np.r_[begins, len(sources)]))
    return many
