"""The power with which one quantity grows with another."""

from collections.abc import Sequence

import numpy as np


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Returns b of the best value = a * size**b, by least squares of logarithms.

    Args:
        sizes: at least two different ones, above 0.
        values: as many, above 0.
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
