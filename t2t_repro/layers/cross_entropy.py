"""Label-smoothed cross-entropy over real tokens (paper, section 5.4)."""

import math

from keras import ops

from t2t_repro.layers.replicas import sum_over_replicas


def padded_cross_entropy(logits, labels, label_smoothing: float = 0.0):
    """Returns the loss summed over real tokens, and their number.

    As T2T's layers/common_layers.py, padded_cross_entropy: the true label gets 1 - label_smoothing,
    all others share the rest evenly, and the entropy of that target is subtracted, so that a
    perfect prediction has loss 0. No one-hot or smoothed target is ever built; all is float32.

    Args:
        logits: (B, T, V).
        labels: int32 (B, T); 0 is padding and counts nothing.
        label_smoothing: in [0, 1).

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels = ops.cast(labels, "int32")
    loss = _smoothed_cross_entropy(ops.cast(logits, "float32"), labels, label_smoothing)
    weights = ops.cast(labels != 0, "float32")
    return ops.sum(loss * weights), ops.sum(weights)


def mean_over_global_batch(total, weight):
    """Returns total / weight with the weight summed over all replicas.

    The replicas' results then add up to the loss of one replica with the whole batch.
    """
    return total / ops.maximum(sum_over_replicas(weight), 1.0)


def _smoothed_target(label_smoothing: float, vocab_size: int) -> tuple[float, float, float]:
    """Returns the target's probability of the label, of each other symbol, and its entropy."""
    confidence = 1.0 - label_smoothing
    low = label_smoothing / (vocab_size - 1)
    entropy = -confidence * math.log(confidence)
    if low:
        entropy -= label_smoothing * math.log(low + 1e-20)
    return confidence, low, entropy


def _smoothed_cross_entropy(logits, labels, label_smoothing: float):
    """Returns the loss of every position: float32 (B, T).

    The gradient is written out, as the softmax less the target: what autodiff would make of the
    terms below passes some ten times more often over the logits, the largest tensor of a step.
    """
    vocab_size = logits.shape[-1]
    confidence, low, entropy = _smoothed_target(label_smoothing, vocab_size)

    @ops.custom_gradient
    def cross_entropy(logits):
        softmax = ops.softmax(logits, axis=-1)
        # logsumexp from the largest logit, whose probability cannot underflow
        normalizer = ops.max(logits, axis=-1) - ops.log(ops.max(softmax, axis=-1))
        of_label = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        loss = normalizer - (confidence - low) * of_label - entropy
        if low:
            loss = loss - low * ops.sum(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            rows = ops.reshape(upstream, (-1, 1))
            flat = ops.reshape(softmax, (-1, vocab_size))
            label = ops.reshape(labels, (-1, 1))
            of_label = (ops.take_along_axis(flat, label, axis=-1) - confidence) * rows
            position = ops.arange(ops.shape(flat)[0], dtype="int32")[:, None]
            where = ops.concatenate([position, label], axis=-1)
            flat = ops.scatter_update((flat - low) * rows, where, of_label[:, 0])
            return ops.reshape(flat, ops.shape(softmax))

        return loss, gradient

    return cross_entropy(logits)
