"""How long the two sides are, and how that goes together."""

import dataclasses

import numpy as np

from t2t_repro.corpora.checks.block import Block

_FAR = 5.0  # deviations
_TIMES = 2.0  # at least so many times what is usual


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How the lengths of two sides go together.

    Attributes:
        usual: the median of characters of the target for one of the source.
        deviation: of the difference to that, for the root of the characters of both.
    """

    usual: float
    deviation: float


def fit(block: Block) -> Ratio:
    """Returns what the pairs of a sample tell."""
    sources, targets = (side.lengths for side in block.sides)
    there = (sources > 0) & (targets > 0)
    if not there.any():
        return Ratio(1.0, 1.0)
    sources, targets = sources[there], targets[there]
    usual = float(np.median(targets / sources))
    differences = np.abs(_difference(sources, targets, usual))
    return Ratio(usual, max(0.5, 1.4826 * float(np.median(differences))))


def unusual_ratio(block: Block, ratio: Ratio) -> np.ndarray:
    """Returns bool (N,): one side is much longer than the other, for this corpus and that length.

    The difference of two lengths grows with their root (Gale and Church, 1993, section 3.1).
    """
    sources, targets = (side.lengths for side in block.sides)
    far = np.abs(_difference(sources, targets, ratio.usual)) > _FAR * ratio.deviation
    times = (targets + 1) / (ratio.usual * sources + 1)
    return far & ((times > _TIMES) | (times < 1 / _TIMES)) & (sources > 0) & (targets > 0)


def _difference(sources: np.ndarray, targets: np.ndarray, usual: float) -> np.ndarray:
    return (targets - usual * sources) / np.sqrt(targets + usual * sources + 1)
