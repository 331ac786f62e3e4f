"""Stretches in which the targets stand some lines too early or too late.

A hidden Markov model of the offset (Rabiner, 1989, section III.B): pairs usually stand side by
side, seldom slip, and then stay so for a while; how well a source goes with each target near it is
what is seen.
"""

import numpy as np

from t2t_repro.corpora.checks import lexical
from t2t_repro.corpora.checks.block import Block
from t2t_repro.corpora.checks.lexical import Lexicon

FARTHEST = 3  # lines
_LOW, _NEAR = 2.0, 8  # a fit that is seldom right; so many lines around such are looked at
_SLIPS, _RETURNS = -9.0, -3.0  # logs of the probabilities
_WEIGHT = 0.5  # of a fit: words of a sentence do not come one by one
_MOST = 12.0  # that a line may speak for an offset: one that is there twice says little


def slipped(block: Block, lexicon: Lexicon) -> np.ndarray:
    """Returns bool (N,): the pairs of stretches that fit better with their targets shifted."""
    fits = lexical.fits(block, lexicon)
    beside = fits(0)
    found = np.zeros(len(block), bool)
    suspect = _around(beside < _LOW)
    if not suspect.any():
        return found
    offsets = np.array([0, *(sign * n for n in range(1, FARTHEST + 1) for sign in (1, -1))])
    seen = np.stack([fits(n) - beside for n in offsets], axis=1)
    place = np.arange(len(block))[:, None] + offsets
    seen[(place < 0) | (place >= len(block))] = 0  # what is not seen speaks for nothing
    seen = np.clip(_WEIGHT * seen, -_MOST, _MOST)
    edges = np.flatnonzero(np.diff(np.r_[False, suspect, False]))
    for start, end in edges.reshape(-1, 2):
        found[start:end] = _path(seen[start:end]) != 0
    return found


def _around(low: np.ndarray) -> np.ndarray:
    """Returns bool (N,): the lines near three of four in a row that are `low`."""
    some = np.convolve(low, np.ones(4), "same") >= 3
    return np.convolve(some, np.ones(2 * _NEAR + 1), "same") > 0 if some.any() else some


def _path(seen: np.ndarray) -> np.ndarray:
    """Returns int (N,): the likeliest offset of each line (Viterbi); `seen` is (N, offsets)."""
    count, states = seen.shape
    moves = np.full((states, states), _SLIPS + _RETURNS)  # [from, to]
    moves[0, :], moves[:, 0] = _SLIPS, _RETURNS
    np.fill_diagonal(moves, 0.0)
    before = np.empty((count, states), np.int8)
    score = seen[0] + moves[0]
    every = np.arange(states)
    for n in range(1, count):
        best = score[:, None] + moves
        before[n] = best.argmax(axis=0)
        score = best[before[n], every] + seen[n]
    path = np.empty(count, np.int64)
    path[-1] = score.argmax()
    for n in range(count - 1, 0, -1):
        path[n - 1] = before[n, path[n]]
    return path
