"""Label-smoothed cross-entropy over real tokens (paper, section 5.4)."""

import math

from keras import ops

from t2t_repro.layers.product import sum_over_rows
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


def tied_cross_entropy(x, table, labels, label_smoothing: float = 0.0):
    """Returns what `padded_cross_entropy` makes of the logits x table^T, without giving them out.

    Padding is left out before the product, the largest of a step, and the gradient is that of x and
    of the table at once: one of the logits, as large as they are, is never made. TensorFlow alone
    can do so: how many labels are real decides shapes.

    Args:
        x: (B, T, D).
        table: (V, D), of x's dtype.
        labels: int32 (B, T); 0 is padding and counts nothing.
        label_smoothing: in [0, 1).

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    (real,) = ops.nonzero(labels != 0)
    x = ops.take(ops.reshape(x, (-1, x.shape[-1])), real, axis=0)
    losses = _linear_cross_entropy(x, table, ops.take(labels, real), label_smoothing)
    return ops.sum(losses), ops.cast(ops.shape(losses)[0], "float32")


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


def _logsumexp(logits, softmax):
    """Returns log(sum(exp(logits))) of logits (..., V) whose softmax is known: (...)."""
    # From the largest logit, whose probability cannot underflow. There may be no rows at all, of
    # which Keras takes no maximum without an initial value.
    largest = ops.max(logits, axis=-1, initial=float("-inf"))
    return largest - ops.log(ops.max(softmax, axis=-1, initial=0.0))


def _of_label(values, labels):
    """Picks from values (..., V) at labels (...): (...)."""
    return ops.take_along_axis(values, labels[..., None], axis=-1)[..., 0]


def _with_label(values, labels, of_label):
    """Returns values (M, V) with of_label (M,) at labels (M,)."""
    position = ops.arange(ops.shape(values)[0], dtype="int32")
    return ops.scatter_update(values, ops.stack([position, labels], axis=-1), of_label)


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
        loss = _logsumexp(logits, softmax) - (confidence - low) * _of_label(logits, labels)
        if low:
            loss = loss - low * ops.sum(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            rows = ops.reshape(upstream, (-1,))
            flat = ops.reshape(softmax, (-1, vocab_size))
            label = ops.reshape(labels, (-1,))
            of_label = (_of_label(flat, label) - confidence) * rows
            flat = _with_label((flat - low) * rows[:, None], label, of_label)
            return ops.reshape(flat, ops.shape(softmax))

        return loss - entropy, gradient

    return cross_entropy(logits)


def _linear_cross_entropy(x, table, labels, label_smoothing: float):
    """Returns the losses (M,) float32 of x (M, D) and table (V, D), as _smoothed_cross_entropy.

    With P the softmax, Y the labels as one-hot rows and r the loss's gradient, the logits' gradient
    is r (P - (confidence - low) Y - low). Y goes into P in place; the last term, the same for all
    symbols, goes into the products' results, which are smaller by far than P.
    """
    confidence, low, entropy = _smoothed_target(label_smoothing, table.shape[0])

    @ops.custom_gradient
    def cross_entropy(x, table):
        logits = ops.cast(ops.matmul(x, ops.transpose(table)), "float32")
        softmax = ops.softmax(logits, axis=-1)
        normalizer, of_label = _logsumexp(logits, softmax), _of_label(logits, labels)
        loss = normalizer - (confidence - low) * of_label - entropy
        if low:
            whole_table = sum_over_rows(ops.cast(table, "float32"))
            loss = loss - low * ops.matmul(ops.cast(x, "float32"), whole_table)

        def gradient(*args, upstream=None):
            rows = (args[0] if upstream is None else upstream)[:, None]
            of_target = ops.exp(of_label - normalizer) - (confidence - low)
            difference = ops.cast(_with_label(softmax, labels, of_target), x.dtype)
            scaled_x = x * ops.cast(rows, x.dtype)
            of_x = ops.matmul(difference, table)
            # (D, V), then transposed: a fifth quicker than (V, D) at once
            of_table = ops.matmul(ops.transpose(scaled_x), difference)
            if low:
                # added, not subtracted: TensorFlow adds a vector while it makes the product
                of_x = of_x + ops.cast(-low * whole_table, x.dtype)
                of_table = of_table + -low * sum_over_rows(scaled_x)[:, None]
            return of_x * ops.cast(rows, x.dtype), ops.transpose(of_table)

        return loss, gradient

    return cross_entropy(x, table)
