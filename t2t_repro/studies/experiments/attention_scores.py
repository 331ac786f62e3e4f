"""Experiment: dot products grow with the width of the keys (paper, 3.2.1 and footnote 4).

Queries and keys of independent components with mean 0 and variance 1, as the footnote takes them,
under four scores:

    dot product            q k
    scaled dot product     q k / sqrt(d)
    multiplicative         q W k            (Luong et al. 2015)
    additive               v tanh(W q + U k)  (Bahdanau et al. 2015)

The scores are the model's own (layers/attention_score.py, hparam attention_score), with W, U and v
drawn by Glorot's uniform rule. This is the state at initialisation, without training.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import progress
from t2t_repro.layers import attention_score
from t2t_repro.studies.experiments.result import Result
from t2t_repro.studies.power_law import exponent
from t2t_repro.views import pictures

WIDTHS = (8, 16, 32, 64, 128, 256, 512)  # d
KEYS = 64  # that a query weighs
QUERIES = 32
DRAWS = 12  # of everything, each of QUERIES queries
NEAR = 0.1  # how far a fitted exponent may lie from the one claimed
STARVED = 0.5  # the share of the scaled score's gradient below which a score counts as starved


class Row(NamedTuple):
    """A row of the CSV: what one score does at one width, on average over the queries.

    variance: of a query's logits over the keys.
    entropy: of its weights, in nats; log(KEYS) where all keys weigh the same.
    gradient: what softmax lets through: the trace of its Jacobian, the sum of p (1 - p). It is 0
        where one key has all the weight, and 1 - 1 / KEYS where all weigh the same.
    """

    score: str
    width: int
    variance: float
    entropy: float
    gradient: float


SCORES = {
    "dot product": "dot_product",
    "scaled dot product": "scaled_dot_product",
    "multiplicative": "multiplicative",
    "additive": "additive",
}


def run() -> Result:
    """Measures every score at every width; takes some seconds."""
    rows = []
    for width in progress.track(WIDTHS, "attention_scores", len(WIDTHS), "widths"):
        rows += measure(width)
    return Result(rows, picture(rows), sentences(rows))


def measure(width: int) -> list[Row]:
    """Returns the row of each score; all see the same queries and keys."""
    keras.utils.set_random_seed(width)  # of the scores' own variables
    draw = np.random.default_rng(width)
    inputs = [draw.standard_normal((QUERIES + KEYS, width), "float32") for _ in range(DRAWS)]
    rows = []
    for name, hparam in SCORES.items():
        logits = np.concatenate([logits_of(hparam, x[:QUERIES], x[QUERIES:]) for x in inputs])
        p = softmax(logits)
        entropy = -np.sum(p * np.log(np.maximum(p, 1e-30)), axis=-1)
        gradient = np.sum(p * (1 - p), axis=-1)
        measured = (np.var(logits, axis=-1), entropy, gradient)
        rows.append(Row(name, width, *(float(np.mean(values)) for values in measured)))
    return rows


def logits_of(name: str, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns the logits (Q, K) of queries (Q, d) and keys (K, d) under a newly drawn score."""
    score = attention_score.get(name)
    q, k = (ops.convert_to_tensor(x[None, None]) for x in (queries, keys))  # (1, 1, Q, d)
    score.build(q.shape)
    return ops.convert_to_numpy(score(score.queries(q), score.keys(k)))[0, 0]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float64."""
    logits = logits.astype("float64")
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def growth(rows: Sequence[Row], score: str) -> float:
    """Returns the power of the width with which a score's variance grows."""
    of = [row for row in rows if row.score == score]
    return exponent([row.width for row in of], [row.variance for row in of])


def sentences(rows: Sequence[Row]) -> tuple[str, str]:
    """Says what the rows show.

    The paper's claim on variances holds where the exponents of dot product and scaled dot product
    lie within NEAR of 1 and of 0; the one on gradients, where at the largest width dot product lets
    through less than STARVED of what scaled dot product does.
    """
    exponents = {score: growth(rows, score) for score in SCORES}
    grows = abs(exponents["dot product"] - 1) <= NEAR
    stays = abs(exponents["scaled dot product"]) <= NEAR
    first = "As footnote 4 says: " if grows and stays else "Not as footnote 4 says: "
    powers = ", ".join(f"{power:.2f} for {score}" for score, power in exponents.items())
    first += f"the variance of the logits grows with the width to the power of {powers}."
    widest = max(row.width for row in rows)
    share = {row.score: row.gradient for row in rows if row.width == widest}
    scaled = share["scaled dot product"]
    starved = [score for score in share if share[score] < STARVED * scaled]
    second = "So, as" if "dot product" in starved else "Not as"
    shares = ", ".join(f"{value:.0%} with {score}" for score, value in share.items())
    second += f" the paper suspects: of the gradient, softmax at width {widest} lets through "
    second += f"{shares}; less than {STARVED:.0%} of what it does with scaled dot product for "
    second += f"{' and '.join(starved) or 'none of them'}."
    return first, second


def picture(rows: Sequence[Row]):
    """Draws variance, entropy and gradient against the width."""
    figure, axes = pictures.figure(3, title="Four attention scores at initialisation", width=4.2)
    ends = [min(WIDTHS), max(WIDTHS)]
    limits = (ends, [math.log(KEYS)] * 2, [1 - 1 / KEYS] * 2)
    notes = ("width (footnote 4)", "all keys alike", "all keys alike")
    titles = (
        ("variance of the logits", "variance"),
        ("entropy of the weights", "nats"),
        ("gradient that softmax lets through", "sum of p (1 - p)"),
    )
    for i, each in enumerate(axes):
        for score, style in zip(SCORES, ("o-", "s-", "x--", "^-"), strict=True):
            of = [row for row in rows if row.score == score]
            each.plot([row.width for row in of], [row[2 + i] for row in of], style, label=score)
        each.plot(ends, limits[i], ":", color="#999999", label=notes[i])
        each.set(xscale="log", title=titles[i][0], xlabel="width of the keys", ylabel=titles[i][1])
        pictures.ticks(each, WIDTHS)
        each.legend(fontsize=7)
    axes[0].set_yscale("log")
    axes[1].set_ylim(bottom=0)
    axes[2].set_ylim(bottom=0)
    return figure
