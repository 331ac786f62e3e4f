"""Label-smoothed cross-entropy over real tokens (paper, section 5.4).

Its kernels make few passes over the logits, the largest tensor of a step. Each stands beside its
plain form, and in `kernels.FORMS`.
"""

import math

from keras import ops

from t2t_repro.layers import kernels
from t2t_repro.layers.replicas import sum_over_replicas


def padded_cross_entropy(logits, labels, label_smoothing: float = 0.0, sample_weight=None):
    """Returns the loss summed over real tokens, and their number.

    As T2T's layers/common_layers.py, padded_cross_entropy: the true label gets 1 - label_smoothing,
    all others share the rest evenly, and the entropy of that target is subtracted, so that a
    perfect prediction has loss 0. No one-hot or smoothed target is ever built; all is float32.

    Args:
        logits: (B, T, V).
        labels: int32 (B, T); 0 is padding and counts nothing.
        label_smoothing: in [0, 1).
        sample_weight: float32 (B, T), a weight for the loss of each token, or None.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels = ops.cast(labels, "int32")
    losses = cross_entropy(ops.cast(logits, "float32"), labels, label_smoothing)
    return _over_real_tokens(losses, labels, sample_weight)


def tied_cross_entropy(
    x, table, labels, label_smoothing: float = 0.0, sample_weight=None, compiled: bool = False
):
    """Returns `padded_cross_entropy` of the logits x table^T, which are not returned.

    Padding is dropped before the product, the largest of a step. The gradients of x and of the
    table are computed at once, without one of the logits. Under XLA, which needs fixed shapes,
    padding stays, the logits stay in x's dtype, and their gradient takes one pass.

    Args:
        x: (B, T, D).
        table: (V, D), of x's dtype.
        labels: int32 (B, T); 0 is padding and counts nothing.
        label_smoothing: in [0, 1).
        sample_weight: float32 (B, T), a weight for the loss of each token, or None.
        compiled: whether XLA compiles it.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels, x = ops.reshape(ops.cast(labels, "int32"), (-1,)), ops.reshape(x, (-1, x.shape[-1]))
    weights = None if sample_weight is None else ops.reshape(sample_weight, (-1,))
    if compiled:
        logits = ops.matmul(x, ops.transpose(table))
        losses = fused_cross_entropy(logits, labels, label_smoothing)
        return _over_real_tokens(losses, labels, weights)
    (real,) = ops.nonzero(labels != 0)
    x, labels = ops.take(x, real, axis=0), ops.take(labels, real)
    losses = linear_cross_entropy(x, table, labels, label_smoothing)
    if weights is not None:
        losses = losses * ops.take(weights, real)
    return ops.sum(losses), ops.cast(ops.shape(losses)[0], "float32")


def divergence(first, second, labels, sample_weight=None):
    """Returns the divergence of two passes (`divergence_of_rows`), summed over real tokens.

    Args:
        first: logits (B, T, V).
        second: those of the other pass.
        labels: int32 (B, T); 0 is padding and counts nothing.
        sample_weight: float32 (B, T), a weight for each token, or None.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    each = divergence_of_rows(ops.cast(first, "float32"), ops.cast(second, "float32"))
    return _over_real_tokens(each, labels, sample_weight)


def _over_real_tokens(losses, labels, sample_weight):
    """Returns (the sum of the weighted losses where a label is not 0, how many these are)."""
    real = ops.cast(labels != 0, "float32")
    weighted = real if sample_weight is None else real * sample_weight
    return ops.sum(losses * weighted), ops.sum(real)


def mean_over_global_batch(total, weight):
    """Returns total / weight with the weight summed over all replicas.

    The replicas' results then add up to the loss of one replica with the whole batch.
    """
    return total / ops.maximum(sum_over_replicas(weight), 1.0)


# --- divergence ----------------------------------------------------------------------------------


def plain_divergence(first, second):
    """Returns the mean of KL(p, q) and KL(q, p), p and q the softmaxes of two tensors of logits.

    Args:
        first: float32 (..., V).
        second: float32 (..., V).

    Returns:
        float32 (...).
    """
    difference = ops.log_softmax(first) - ops.log_softmax(second)
    return 0.5 * ops.sum((ops.softmax(first) - ops.softmax(second)) * difference, axis=-1)


@kernels.instead_of(plain_divergence)
def divergence_of_rows(first, second):
    """Returns `plain_divergence`, with a gradient that passes fewer times over the logits."""

    @ops.custom_gradient
    def of_logits(first, second):
        p, q = ops.softmax(first), ops.softmax(second)
        moved = (_logsumexp(first, p) - _logsumexp(second, q))[..., None]
        difference = first - second - moved  # log p - log q
        forward = ops.sum(p * difference, axis=-1)
        backward = -ops.sum(q * difference, axis=-1)

        def gradient(upstream):
            rows = 0.5 * upstream[..., None]
            of_first = p * (difference - forward[..., None]) + (p - q)
            of_second = (q - p) - q * (difference + backward[..., None])
            return of_first * rows, of_second * rows

        return 0.5 * (forward + backward), gradient

    return of_logits(first, second)


# --- cross-entropy -------------------------------------------------------------------------------


def plain_cross_entropy(logits, labels, label_smoothing: float):
    """Returns the label-smoothed loss of every position.

    Args:
        logits: (..., V), of which all but the kernel `fused_cross_entropy` expect float32.
        labels: int32 (...).
        label_smoothing: in [0, 1).

    Returns:
        float32 (...).
    """
    logits = ops.cast(logits, "float32")
    confidence, low, entropy = _smoothed_target(label_smoothing, logits.shape[-1])
    loss = ops.logsumexp(logits, axis=-1) - (confidence - low) * _of_label(logits, labels)
    return loss - low * ops.sum(logits, axis=-1) - entropy


@kernels.instead_of(plain_cross_entropy)
def cross_entropy(logits, labels, label_smoothing: float):
    """Returns `plain_cross_entropy`, whose gradient is the softmax less the target.

    Autodiff's gradient makes some ten times as many passes over the logits, the largest tensor of a
    step.
    """
    vocab_size = logits.shape[-1]
    confidence, low, entropy = _smoothed_target(label_smoothing, vocab_size)

    @ops.custom_gradient
    def of_logits(logits):
        softmax = ops.softmax(logits, axis=-1)
        loss = _logsumexp(logits, softmax) - (confidence - low) * _of_label(logits, labels)
        if low:
            loss = loss - low * ops.sum(logits, axis=-1)

        def gradient(upstream):
            rows = ops.reshape(upstream, (-1,))
            flat = ops.reshape(softmax, (-1, vocab_size))
            label = ops.reshape(labels, (-1,))
            of_label = (_of_label(flat, label) - confidence) * rows
            flat = _with_label((flat - low) * rows[:, None], label, of_label)
            return ops.reshape(flat, ops.shape(softmax))

        return loss - entropy, gradient

    return of_logits(logits)


@kernels.instead_of(plain_cross_entropy)
def fused_cross_entropy(logits, labels, label_smoothing: float):
    """Returns `plain_cross_entropy` of logits of any dtype, for a compiler that joins operations.

    The gradient needs only the logits of the forward pass, and a number a row. So XLA makes no
    other array of their size, nor a float32 copy of bfloat16 logits. Uncompiled, under TensorFlow,
    it takes twice as long as `cross_entropy`.
    """
    vocab_size = logits.shape[-1]
    confidence, low, entropy = _smoothed_target(label_smoothing, vocab_size)

    @ops.custom_gradient
    def of_logits(logits):
        precise = ops.cast(logits, "float32")
        normalizer = ops.logsumexp(precise, axis=-1)
        loss = normalizer - (confidence - low) * ops.cast(_of_label(logits, labels), "float32")
        if low:
            loss = loss - low * ops.sum(precise, axis=-1)

        def gradient(upstream):
            is_label = ops.arange(vocab_size, dtype="int32") == labels[..., None]
            softmax = ops.exp(ops.cast(logits, "float32") - normalizer[..., None])
            of_logits = (softmax - ops.where(is_label, confidence, low)) * upstream[..., None]
            return ops.cast(of_logits, logits.dtype)

        return loss - entropy, gradient

    return of_logits(logits)


def plain_linear_cross_entropy(x, table, labels, label_smoothing: float):
    """Returns the losses of the logits x table^T.

    Args:
        x: (M, D), M tokens.
        table: (V, D), of x's dtype.
        labels: int32 (M,).
        label_smoothing: in [0, 1).

    Returns:
        float32 (M,).
    """
    logits = ops.cast(ops.matmul(x, ops.transpose(table)), "float32")
    return plain_cross_entropy(logits, labels, label_smoothing)


@kernels.instead_of(plain_linear_cross_entropy)
def linear_cross_entropy(x, table, labels, label_smoothing: float):
    """Returns `plain_linear_cross_entropy`, with the fewest passes over the logits.

    With P the softmax, Y the labels as one-hot rows and r the loss's gradient, the logits' gradient
    is r (P - (confidence - low) Y - low). It is never made: all but P is applied to the products'
    results, which are far smaller. Below float32, P - Y would lose digits there, so Y goes into P.
    """
    confidence, low, entropy = _smoothed_target(label_smoothing, table.shape[0])

    @ops.custom_gradient
    def of_products(x, table):
        logits = ops.cast(ops.matmul(x, ops.transpose(table)), "float32")
        softmax = ops.softmax(logits, axis=-1)
        of_label = _of_label(logits, labels)
        normalizer = _normalizer(logits, softmax, labels, of_label)
        loss = normalizer - (confidence - low) * of_label - entropy
        if low:
            whole_table = kernels.sum_over_rows(ops.cast(table, "float32"))
            loss = loss - low * ops.matmul(ops.cast(x, "float32"), whole_table)

        def gradient(upstream):
            rows = ops.cast(upstream, x.dtype)[:, None]
            difference, scaled_x = softmax, x * rows
            precise = difference.dtype == x.dtype
            if not precise:
                of_target = ops.exp(of_label - normalizer) - (confidence - low)
                difference = ops.cast(_with_label(softmax, labels, of_target), x.dtype)
            of_x = ops.matmul(difference, table)
            # (D, V), then transposed: a fifth quicker than (V, D) at once
            of_table = ops.matmul(ops.transpose(scaled_x), difference)
            if low:
                # added, not subtracted: TensorFlow adds a vector while it makes the product
                of_x = of_x + ops.cast(-low * whole_table, x.dtype)
                of_table = of_table + -low * kernels.sum_over_rows(scaled_x)[:, None]
            of_table = ops.transpose(of_table)
            if precise:
                of_x = of_x - (confidence - low) * ops.take(table, labels, axis=0)
                at, more = labels[:, None], (low - confidence) * scaled_x
                of_table = ops.scatter_update(of_table, at, more, reduction="add")
            return of_x * rows, of_table

        return loss, gradient

    return of_products(x, table)


def _normalizer(logits, softmax, labels, of_label):
    """Returns `_logsumexp` of logits (M, V), by their labels alone where that is precise."""
    probability = _of_label(softmax, labels)
    return ops.cond(
        ops.all(probability > 1e-30),  # far from an underflow
        lambda: of_label - ops.log(probability),
        lambda: _logsumexp(logits, softmax),
    )


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
    # From the largest logit, whose probability cannot underflow. There may be no rows, for which
    # Keras's maximum needs an initial value.
    largest = ops.max(logits, axis=-1, initial=float("-inf"))
    return largest - ops.log(ops.max(softmax, axis=-1, initial=0.0))


def _of_label(values, labels):
    """Picks from values (..., V) at labels (...): (...)."""
    return ops.take_along_axis(values, labels[..., None], axis=-1)[..., 0]


def _with_label(values, labels, of_label):
    """Returns values (M, V) with of_label (M,) at labels (M,)."""
    position = ops.arange(ops.shape(values)[0], dtype="int32")
    return ops.scatter_update(values, ops.stack([position, labels], axis=-1), of_label)
