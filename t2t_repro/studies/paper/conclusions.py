"""Section 6.2's conclusions of table 3, tried on runs of several seeds."""

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable"
MOST_SEEDS = 10
# Student's t at 97.5 %, by degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
EQUAL_WITHIN = 0.5  # BLEU; the paper calls 25.8 and 25.7 nearly identical


class Result(NamedTuple):
    """What a run ended with, on dev, and the hours of its steps, where they are known."""

    bleu: float
    perplexity: float
    hours: float | None = None


class Conclusion(NamedTuple):
    """The paper's: one row is better than another by a score, or is equal to it.

    better, worse: rows of table 3 by their short names.
    by: "bleu" or "perplexity", of which less is better.
    equal: whether they are to be equal.
    """

    text: str
    better: str
    worse: str
    by: str = "bleu"
    equal: bool = False


CONCLUSIONS = (
    Conclusion("(A) one head is worse than eight", "base", "a_h1"),
    Conclusion("(A) too many heads, 32, are worse than eight", "base", "a_h32"),
    Conclusion("(B) keys of 16 are worse than of 64", "base", "b_dk16"),
    Conclusion("(B) keys of 32 are worse than of 64", "base", "b_dk32"),
    Conclusion("(C) four layers are better than two", "c_n4", "c_n2"),
    Conclusion("(C) six layers are better than four", "base", "c_n4"),
    Conclusion("(C) d_model 512 is better than 256", "base", "c_dmodel256"),
    Conclusion("(C) d_model 1024 is better than 512", "c_dmodel1024", "base"),
    Conclusion("(C) d_ff 2048 is better than 1024", "base", "c_dff1024"),
    Conclusion("(C) d_ff 4096 is better than 2048", "c_dff4096", "base"),
    Conclusion("(D) dropout helps", "base", "d_dropout0"),
    Conclusion("(D) label smoothing helps BLEU", "base", "d_smoothing0"),
    Conclusion("5.4 label smoothing hurts perplexity", "d_smoothing0", "base", "perplexity"),
    Conclusion("(E) learned positions are as good", "base", "e_learned_positions", equal=True),
    Conclusion("big is better than base", "big", "base"),
)


class Verdict(NamedTuple):
    """What runs say of a conclusion.

    difference: how much better the better row is, mean over the seeds; None: rows are missing.
    interval: half of its 95 % interval, by Student's t over the seeds; None: of fewer than two.
    """

    word: str
    difference: float | None
    interval: float | None
    seeds: int


def judge(
    conclusion: Conclusion,
    results: Mapping[str, Mapping[int, Result]],
    then: float | None = None,
) -> Verdict:
    """Returns what runs say of a conclusion.

    Args:
        conclusion: the paper's.
        results: {row: {seed: result}}; rows are compared seed by seed.
        then: by how much the better row was better in the paper. An interval that holds both zero
            and this is too wide to tell. None: what is not confirmed is called so.
    """
    ours, theirs = (results.get(row, {}) for row in (conclusion.better, conclusion.worse))
    sign = -1 if conclusion.by == "perplexity" else 1
    gains = [
        sign * (getattr(ours[seed], conclusion.by) - getattr(theirs[seed], conclusion.by))
        for seed in sorted(ours.keys() & theirs.keys())
    ]
    if not gains:
        return Verdict(NOT_TESTABLE, None, None, 0)
    mean = statistics.mean(gains)
    half = half_interval(gains)
    if half is None:
        return Verdict(NOT_TESTABLE, mean, None, len(gains))
    if conclusion.equal:
        far = max(abs(mean - half), abs(mean + half))
        if far <= EQUAL_WITHIN:
            return Verdict(CONFIRMED, mean, half, len(gains))
        differs = abs(mean) > half
        return Verdict(NOT_CONFIRMED if differs else NOT_TESTABLE, mean, half, len(gains))
    if mean > half:
        return Verdict(CONFIRMED, mean, half, len(gains))
    wide = then is not None and abs(mean) <= half and mean + half >= then
    return Verdict(NOT_TESTABLE if wide else NOT_CONFIRMED, mean, half, len(gains))


def half_interval(values: list[float]) -> float | None:
    """Returns half of the 95 % interval of a mean, by Student's t; None: of fewer than two."""
    if len(values) < 2:
        return None
    return _T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
