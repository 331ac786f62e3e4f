"""Section 6.2's conclusions of table 3, tried on runs of several seeds."""

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from t2t_repro.study.engine import half_interval

CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable"
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
    mean, half = statistics.mean(gains) if gains else None, half_interval(gains)
    if mean is None or half is None:
        return Verdict(NOT_TESTABLE, mean, half, len(gains))
    if conclusion.equal:
        near = abs(mean) + half <= EQUAL_WITHIN
        word = CONFIRMED if near else NOT_CONFIRMED if abs(mean) > half else NOT_TESTABLE
    else:
        wide = then is not None and abs(mean) <= half and mean + half >= then
        word = CONFIRMED if mean > half else NOT_TESTABLE if wide else NOT_CONFIRMED
    return Verdict(word, mean, half, len(gains))
