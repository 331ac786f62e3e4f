"""tensor2tensor's evaluation metrics (utils/metrics.py, utils/rouge.py, utils/bleu_hook.py).

What needs the logits runs in keras.ops on the device and leaves three numbers a token
(`token_statistics`); what counts n-grams runs in Python on the ids. All metrics are teacher-forced:
each prediction sees the reference before it. None is a number to publish.

`B` batch, `T` target length, `V` vocabulary.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from keras import ops

from t2t_repro.scoring.bleu import token_bleu
from t2t_repro.text.encoders import PAD_ID

TOP = 5


def token_statistics(logits, labels) -> dict:
    """Reduces logits (B, T, V) and labels (B, T) to what the metrics need, each (B, T).

    Returns:
        `cross_entropy` of each label, without label smoothing, float32; `in_top5`, 1.0 where the
        label is one of the five most likely ids (of equals, the lower ones); `predictions`, the
        most likely id, int32. Padding has values too, which sums must leave out.
    """
    logits = ops.cast(logits, "float32")
    labels = ops.cast(labels, "int32")
    label_logit = ops.take_along_axis(logits, labels[..., None], axis=-1)  # (B, T, 1)
    equal_before = (logits == label_logit) & (ops.arange(logits.shape[-1]) < labels[..., None])
    # `not <=`, which is true for NaN.
    before = ops.logical_not(logits <= label_logit) | equal_before
    return {
        "cross_entropy": ops.logsumexp(logits, axis=-1) - label_logit[..., 0],
        "in_top5": ops.cast(ops.sum(ops.cast(before, "int32"), axis=-1) < TOP, "float32"),
        "predictions": ops.cast(ops.argmax(logits, axis=-1), "int32"),
    }


def accuracy(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """The share of tokens predicted; weighs the tokens."""
    real = labels != PAD_ID
    return _mean((statistics["predictions"] == labels)[real])


def accuracy_top5(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """The share of tokens among the five most likely; weighs the tokens."""
    return _mean(statistics["in_top5"][labels != PAD_ID])


def accuracy_per_sequence(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """The share of sentences whose every token is predicted; weighs the sentences."""
    wrong = (statistics["predictions"] != labels) & (labels != PAD_ID)
    return _mean(~wrong.any(axis=1))


def neg_log_perplexity(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """Minus the mean cross entropy of a token; weighs the tokens."""
    return _mean(-statistics["cross_entropy"][labels != PAD_ID])


def approx_bleu_score(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """BLEU of the ids of one batch, padding included, as T2T counts it; weighs batches alike.

    It is no measure of translations: n-grams match by chance where the ids are few or the sentences
    short, so that an untrained model may have 0.1, or 0.5 of binary digits.

    An n-gram order without a match counts as half a match, the next as a quarter, and so on.
    """
    hypotheses, references = statistics["predictions"].tolist(), labels.tolist()
    return token_bleu(hypotheses, references), 1.0


def rouge_2_fscore(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """Mean F1 of the sets of bigrams, padding included, as T2T; weighs batches alike."""

    def score(hypothesis: list[int], reference: list[int]) -> float:
        predicted, wanted = (set(itertools.pairwise(ids)) for ids in (hypothesis, reference))
        common = len(predicted & wanted)
        precision, recall = common / max(1, len(predicted)), common / max(1, len(wanted))
        return 2 * precision * recall / (precision + recall + 1e-8)

    return float(np.mean([score(*pair) for pair in _sentences(statistics, labels)])), 1.0


def rouge_l_fscore(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """Mean F of the longest common subsequence, padding included, as T2T; weighs batches alike."""

    def score(hypothesis: list[int], reference: list[int]) -> float:
        common = longest_common_subsequence(hypothesis, reference)
        recall, precision = common / len(reference), common / len(hypothesis)
        beta = precision / (recall + 1e-12)
        return (1 + beta**2) * recall * precision / (recall + beta**2 * precision + 1e-12)

    return float(np.mean([score(*pair) for pair in _sentences(statistics, labels)])), 1.0


def edit_distance(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """Edits from prediction to reference, padding left out, a reference token; weighs tokens."""
    edits = 0
    for hypothesis, reference in _sentences(statistics, labels):
        edits += levenshtein([x for x in hypothesis if x], [x for x in reference if x])
    length = float(np.count_nonzero(labels))
    return (edits / length if length else 0.0), length


def loss(statistics: dict, labels: np.ndarray) -> tuple[float, float]:
    """The batch's cross entropy a token, no label smoothing; weighs batches alike, as T2T."""
    return _mean(statistics["cross_entropy"][labels != PAD_ID])[0], 1.0


Metric = Callable[[dict, np.ndarray], tuple[float, float]]
METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "accuracy_top5": accuracy_top5,
    "accuracy_per_sequence": accuracy_per_sequence,
    "neg_log_perplexity": neg_log_perplexity,
    "approx_bleu_score": approx_bleu_score,
    "rouge_2_fscore": rouge_2_fscore,
    "rouge_L_fscore": rouge_l_fscore,
    "edit_distance": edit_distance,
}


class Accumulator:
    """The mean of each metric over batches, each batch with the weight that its metric gives.

    Args:
        names: names of `METRICS`. `loss` is always there.
    """

    def __init__(self, names: Sequence[str]):
        self._metrics = {"loss": loss} | {name: METRICS[name] for name in names}
        self._sums = dict.fromkeys(self._metrics, 0.0)
        self._weights = dict.fromkeys(self._metrics, 0.0)

    def update(self, statistics: dict, labels: np.ndarray) -> None:
        """Adds one batch: the arrays of `token_statistics` and the labels (B, T)."""
        for name, metric in self._metrics.items():
            value, weight = metric(statistics, labels)
            self._sums[name] += value * weight
            self._weights[name] += weight

    def result(self) -> dict[str, float]:
        """Returns {metric: mean}; 0 where nothing was counted."""
        return {
            name: self._sums[name] / weight if weight else 0.0
            for name, weight in self._weights.items()
        }


def longest_common_subsequence(a: Sequence[int], b: Sequence[int]) -> int:
    """Returns the length of the longest common subsequence.

    One row of the usual table is one integer here: bit j is 0 where the row grows at b[j]
    (Hyyro 2004), so that a row costs a few operations on integers of len(b) bits.
    """
    places: dict[int, int] = {}
    for index, item in enumerate(b):
        places[item] = places.get(item, 0) | 1 << index
    full = (1 << len(b)) - 1
    row = full
    for item in a:
        matched = row & places.get(item, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(b) - row.bit_count()


def levenshtein(a: Sequence[int], b: Sequence[int]) -> int:
    """Returns how many insertions, deletions and replacements turn `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, item in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, start=1):
            replaced = diagonal + (item != other)
            diagonal = row[j]
            row[j] = min(replaced, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _sentences(statistics: dict, labels: np.ndarray) -> zip:
    """Returns the ids of each prediction and of its reference, padding included."""
    return zip(statistics["predictions"].tolist(), labels.tolist(), strict=True)


def _mean(values: np.ndarray) -> tuple[float, float]:
    """Returns (mean, how many); (0, 0) of nothing."""
    return (float(np.mean(values, dtype=np.float64)) if values.size else 0.0), float(values.size)
