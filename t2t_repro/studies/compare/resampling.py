"""When the difference of two variants is more than chance: with every seed, and in resamples."""

from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
SEED = 12345  # of the resamples, as sacrebleu's
UNCORRECTED = (
    "Each comparison stands alone: nothing is corrected for how many there are, so among many "
    "one may be a difference by chance."
)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Returns what bounds 95 % of the differences of resamples."""
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


def lower(differences: Sequence[float], bounds: tuple[float, float]) -> int | None:
    """Returns which of two is lower with every seed and in 95 % of the resamples: 0 or 1; or None.

    Args:
        differences: of each seed, the first less the second.
        bounds: as `interval` returns them.
    """
    if max(*differences, bounds[1]) < 0:
        return 0
    return 1 if min(*differences, bounds[0]) > 0 else None
