"""Label-smoothed cross-entropy over real tokens (paper, section 5.4)."""

from keras import ops

from t2t_repro.layers import loss_kernels
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
        sample_weight: float32 (B, T), what the loss of each token is multiplied by, or None.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels = ops.cast(labels, "int32")
    loss = loss_kernels.cross_entropy(ops.cast(logits, "float32"), labels, label_smoothing)
    weights = ops.cast(labels != 0, "float32")
    weighted = weights if sample_weight is None else weights * sample_weight
    return ops.sum(loss * weighted), ops.sum(weights)


def tied_cross_entropy(
    x, table, labels, label_smoothing: float = 0.0, sample_weight=None, compiled: bool = False
):
    """Returns what `padded_cross_entropy` makes of the logits x table^T, without giving them out.

    Padding is left out before the product, the largest of a step, and the gradient is that of x and
    of the table at once: one of the logits, as large as they are, is never made. Where XLA compiles
    it cannot be so, for how many labels are real would decide shapes; there the logits stay in x's
    dtype, and their gradient is made of them in one pass.

    Args:
        x: (B, T, D).
        table: (V, D), of x's dtype.
        labels: int32 (B, T); 0 is padding and counts nothing.
        label_smoothing: in [0, 1).
        sample_weight: float32 (B, T), what the loss of each token is multiplied by, or None.
        compiled: whether XLA compiles it.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    labels, x = ops.reshape(ops.cast(labels, "int32"), (-1,)), ops.reshape(x, (-1, x.shape[-1]))
    weights = None if sample_weight is None else ops.reshape(sample_weight, (-1,))
    if compiled:
        logits = ops.matmul(x, ops.transpose(table))
        losses = loss_kernels.fused_cross_entropy(logits, labels, label_smoothing)
        real = ops.cast(labels != 0, "float32")
        return ops.sum(losses * (real if weights is None else real * weights)), ops.sum(real)
    (real,) = ops.nonzero(labels != 0)
    x, labels = ops.take(x, real, axis=0), ops.take(labels, real)
    losses = loss_kernels.linear_cross_entropy(x, table, labels, label_smoothing)
    if weights is not None:
        losses = losses * ops.take(weights, real)
    return ops.sum(losses), ops.cast(ops.shape(losses)[0], "float32")


def divergence(first, second, labels, sample_weight=None):
    """Returns the divergence of two passes (`loss_kernels.divergence`), summed over real tokens.

    Args:
        first: logits (B, T, V).
        second: those of the other pass.
        labels: int32 (B, T); 0 is padding and counts nothing.
        sample_weight: float32 (B, T), what that of each token is multiplied by, or None.

    Returns:
        (sum float32 scalar, weight float32 scalar).
    """
    each = loss_kernels.divergence(ops.cast(first, "float32"), ops.cast(second, "float32"))
    weights = ops.cast(labels != 0, "float32")
    weighted = weights if sample_weight is None else weights * sample_weight
    return ops.sum(each * weighted), ops.sum(weights)


def mean_over_global_batch(total, weight):
    """Returns total / weight with the weight summed over all replicas.

    The replicas' results then add up to the loss of one replica with the whole batch.
    """
    return total / ops.maximum(sum_over_replicas(weight), 1.0)
