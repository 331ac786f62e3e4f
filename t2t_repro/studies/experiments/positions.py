"""Experiment: PE(pos + k) is a linear function of PE(pos) (paper, section 3.5).

Sine and cosine of one frequency w are a pair, and going k positions on turns the pair by k w:

    sin(a + kw) =  cos(kw) sin(a) + sin(kw) cos(a)
    cos(a + kw) = -sin(kw) sin(a) + cos(kw) cos(a)

So one 2 x 2 map for each pair and offset, the same at every position, must do. It is fitted by
least squares on the first positions, and tried on later ones that the fit did not see; random
vectors, where learned positions begin, get the same fit. What a trained model makes of positions
beyond its training length is another question, which this experiment does not ask.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.layers.position import inverse_timescales, timing_signal
from t2t_repro.studies.experiments.result import Result
from t2t_repro.views import pictures

WIDTH = 64  # D
OFFSETS = (1, 2, 8, 32, 128)  # k
FITTED = 256  # positions 0 to 255, and as many after them to try the map on
DRAWN = 8  # the offset whose whole map is drawn
HOLDS = 1e-3  # the error, as a share and in radians, up to which the claim is taken to hold
UNEXPLAINED = 0.5  # the share of random vectors that must be left for the fit to tell something


class Pair(NamedTuple):
    """The map of one pair of channels, `offset` positions on; a row of the CSV.

    Angles are in radians, between -pi and pi. An error is the root mean square of what is left at
    the positions that the fit did not see, as a share of the vectors there.
    """

    offset: int
    pair: int
    frequency: float  # radians a position
    angle: float  # offset * frequency
    fitted_angle: float
    error: float
    random_error: float


def run() -> Result:
    """Fits every offset; takes a second."""
    positions = np.arange(2 * FITTED + max(OFFSETS), dtype="float32")
    signal = pairs_of(np.asarray(timing_signal(positions, WIDTH), "float64"))
    random = np.random.default_rng(0).standard_normal(signal.shape)
    frequencies = inverse_timescales(WIDTH // 2).astype("float64")
    rows, drawn = [], np.zeros((WIDTH, WIDTH))
    for offset in progress.track(OFFSETS, "positions", len(OFFSETS), "offsets"):
        maps, errors = fit(signal, offset)
        _, random_errors = fit(random, offset)
        angles = [(offset * w + np.pi) % (2 * np.pi) - np.pi for w in frequencies]
        fitted = [angle_of(each) for each in maps]
        columns = (frequencies, angles, fitted, errors, random_errors)
        values = zip(*columns, strict=True)
        rows += [Pair(offset, i, *map(float, row)) for i, row in enumerate(values)]
        if offset == DRAWN:
            drawn = whole(maps)
    return Result(rows, picture(rows, drawn), sentences(rows))


def pairs_of(signal: np.ndarray) -> np.ndarray:
    """(positions, D), sines before cosines, -> (D / 2, positions, 2)."""
    return np.stack(np.split(signal, 2, axis=-1), axis=-1).transpose(1, 0, 2)


def fit(pairs: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Fits the map of each pair from a position to the one `offset` further on.

    Args:
        pairs: (D / 2, at least 2 FITTED + offset, 2).
        offset: k.

    Returns:
        (maps (D / 2, 2, 2), which multiply a pair from the left; errors (D / 2,), as Pair's).
    """
    maps, errors = [], []
    for pair in pairs:
        here, there = pair[: 2 * FITTED], pair[offset : 2 * FITTED + offset]
        fitted = np.linalg.lstsq(here[:FITTED], there[:FITTED], rcond=None)[0]
        left = here[FITTED:] @ fitted - there[FITTED:]
        maps.append(fitted.T)
        errors.append(np.sqrt(np.mean(left**2) / np.mean(there[FITTED:] ** 2)))
    return np.array(maps), np.array(errors)


def angle_of(fitted: np.ndarray) -> float:
    """Returns the angle of the rotation that is nearest to a 2 x 2 map of (sine, cosine)."""
    return float(np.arctan2(fitted[0, 1] - fitted[1, 0], fitted[0, 0] + fitted[1, 1]))


def whole(maps: np.ndarray) -> np.ndarray:
    """Returns the maps of the pairs as one (D, D) map of the signal: four diagonals."""
    return np.block([[np.diag(maps[:, i, j]) for j in range(2)] for i in range(2)])


def turned_apart(row: Pair) -> float:
    """Returns by how many radians the fitted angle misses; a whole turn is nothing."""
    return abs((row.fitted_angle - row.angle + np.pi) % (2 * np.pi) - np.pi)


def sentences(rows: Sequence[Pair]) -> tuple[str, str]:
    """Says what the rows show.

    The claim holds where no pair's error nor its angle is off by more than HOLDS. It tells
    something about sinusoids where the fit leaves at least UNEXPLAINED of every random pair.
    """
    error, angle = max(row.error for row in rows), max(turned_apart(row) for row in rows)
    least = min(row.random_error for row in rows)
    tried = f"positions {FITTED} to {2 * FITTED - 1}, which the fit on those before did not see"
    numbers = (
        f"on {tried}, PE(pos + k) is a linear map of PE(pos) up to {error:.1e} of its size, and "
        f"that map is the rotation by k w up to {angle:.1e} radians (k from {min(OFFSETS)} to "
        f"{max(OFFSETS)}, {WIDTH} channels)."
    )
    holds = error <= HOLDS and angle <= HOLDS
    first = "As the paper says: " if holds else "The numbers do not support the paper's claim: "
    if least >= UNEXPLAINED:
        second = (
            f"The same fit leaves at least {least:.0%} of random vectors unexplained, so it is "
            "the sinusoids that make it possible; whether a model uses it, this does not show."
        )
    else:
        second = (
            f"The same fit leaves only {least:.0%} of some random vectors unexplained, so it says "
            "nothing about sinusoids."
        )
    return first + numbers, second


def picture(rows: Sequence[Pair], drawn: np.ndarray):
    """Draws the whole map of one offset, fitted against expected angles, and the errors."""
    figure, (left, middle, right) = pictures.figure(
        3, title="PE(pos + k) as a linear function of PE(pos)", width=4.2
    )
    left.grid(False)
    heat = left.imshow(drawn, cmap=pictures.SIGNED, vmin=-1, vmax=1, interpolation="nearest")
    figure.colorbar(heat, ax=left).ax.tick_params(labelsize=8)
    left.set(
        title=f"the fitted map for k = {DRAWN}",
        xlabel="channel of PE(pos)",
        ylabel="channel of PE(pos + k)",
    )
    middle.plot([-np.pi, np.pi], [-np.pi, np.pi], color="#999999", linewidth=0.8)
    for offset in OFFSETS:
        of = [row for row in rows if row.offset == offset]
        middle.plot(
            [row.angle for row in of], [row.fitted_angle for row in of], ".", label=f"k = {offset}"
        )
    middle.set(title="angle of each pair", xlabel="k w, radians", ylabel="fitted, radians")
    middle.legend(fontsize=7)
    for field, label in (("error", "sinusoids"), ("random_error", "random vectors")):
        worst = [max(getattr(row, field) for row in rows if row.offset == k) for k in OFFSETS]
        right.plot(OFFSETS, worst, "o-", label=label)
    right.set(xscale="log", yscale="log", xlabel="k, positions", ylabel="share of the vectors")
    right.set(title="worst pair's error, later positions")
    right.legend(fontsize=7)
    return figure
