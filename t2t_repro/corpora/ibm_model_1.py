"""Which words go with which in pairs of lines: IBM model 1 (Brown et al., 1993, section 4.1)."""

import dataclasses

import numpy as np

_ITERATIONS = 4


@dataclasses.dataclass(frozen=True)
class Words:
    """The known words of N lines, one line behind another.

    Attributes:
        ids: int32 (W,): their numbers.
        lines: int64 (W,): their lines, in order.
        counts: int64 (N,): how many words each line has, with the unknown ones.
    """

    ids: np.ndarray
    lines: np.ndarray
    counts: np.ndarray


@dataclasses.dataclass(frozen=True)
class Counts:
    """What goes with what, for each source word and each target word that stand in one pair.

    Attributes:
        keys: int: source word * number of target words + target word, in order.
        expected: float64: how often the source word is expected to have become the target word.
        probabilities: float64: the same as a share of all that the source word became.
        together: int64: how often they stand in one pair.
    """

    keys: np.ndarray
    expected: np.ndarray
    probabilities: np.ndarray
    together: np.ndarray


def count(sources: Words, targets: Words, lines: int, number: int) -> Counts:
    """Returns what goes with what in N lines.

    Args:
        sources: their words on one side.
        targets: those on the other.
        lines: N.
        number: how many target words there are, below which their ids are.
    """
    of_source, of_target = _beside(sources, targets, lines)
    largest = (int(sources.ids.max(initial=0)) + 1) * number
    kind = "int32" if largest < 2**31 else "int64"
    together = of_source.astype(kind) * np.asarray(number, kind) + of_target
    del of_source, of_target  # millions
    keys, inverse = np.unique(together, return_inverse=True)
    del together
    inverse = inverse.astype(np.int32)
    token = _target_tokens(sources, targets, lines).astype(np.int32)
    expected: np.ndarray = np.ones(len(keys))
    table = expected
    source = keys // max(1, number)
    for _ in range(_ITERATIONS if len(keys) else 0):
        share = table[inverse]
        share = share / np.bincount(token, share, token[-1] + 1)[token]
        expected = np.bincount(inverse, share, len(keys))
        table = expected / np.maximum(np.bincount(source, expected), 1e-9)[source]
    return Counts(keys, expected, table, np.bincount(inverse, minlength=len(keys)))


def _beside(sources: Words, targets: Words, lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns every source word beside every target word of its line, target word by word."""
    per_line = np.bincount(sources.lines, minlength=lines)
    begins = np.cumsum(per_line) - per_line
    counts = per_line[targets.lines]
    at = np.repeat(begins[targets.lines] - (np.cumsum(counts) - counts), counts)
    return sources.ids[at + np.arange(len(at))], np.repeat(targets.ids, counts)


def _target_tokens(sources: Words, targets: Words, lines: int) -> np.ndarray:
    """Returns the number of the target word that each entry of `_beside` is of."""
    per_line = np.bincount(sources.lines, minlength=lines)
    return np.repeat(np.arange(len(targets.lines)), per_line[targets.lines])
