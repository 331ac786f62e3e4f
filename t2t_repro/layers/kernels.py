"""What is written by hand for speed, each kernel beside the plain form that it stands for.

A kernel computes what its plain form does, most with a gradient of its own, in another order of
additions. T2T_REPRO_PLAIN=1 in the environment, read when this module is imported, puts the plain
forms in the place of all kernels, to see whether one is at fault; attention in blocks and Adam's
pass over a variable heed it too. Dropout then draws other numbers, and float32 results differ in
their last digits.
"""

import math
import os
from collections.abc import Callable
from typing import TypeVar

import keras
from keras import ops

PLAIN = os.environ.get("T2T_REPRO_PLAIN", "") not in ("", "0")
FORMS: dict[str, tuple[Callable, Callable]] = {}  # a kernel's name: its plain form, the kernel

Form = TypeVar("Form", bound=Callable)

# What oneDNN makes with a transposed kernel of at most this depth, it makes a third slower than
# with a kernel that lies there as the product reads it; wider, it makes no difference.
_NARROW = 512
_DROPOUT_STEPS = 2**16  # a rate is a whole number of these parts, at most 8e-6 from the one given


def instead_of(plain: Form) -> Callable[[Form], Form]:
    """Returns the decorator of a kernel that takes the place of `plain`, unless PLAIN is set."""

    def choose(kernel: Form) -> Form:
        FORMS[kernel.__name__] = (plain, kernel)
        return plain if PLAIN else kernel

    return choose


# --- products ------------------------------------------------------------------------------------


@instead_of(ops.matmul)
def product(x, kernel):
    """Returns x (..., D) times kernel (D, F): (..., F); its gradient is quicker on CPUs."""

    @ops.custom_gradient
    def multiply(x, kernel):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            flat = ops.reshape(upstream, (-1, kernel.shape[1]))
            of_x = ops.matmul(flat, _transposed(kernel))
            of_kernel = ops.matmul(ops.transpose(ops.reshape(x, (-1, kernel.shape[0]))), flat)
            return ops.reshape(of_x, ops.shape(x)), of_kernel

        return ops.matmul(x, kernel), gradient

    return multiply(x, kernel)


def _transposed(kernel):
    """Returns kernel (D, F) as (F, D), copied where it is narrow."""
    depth, units = kernel.shape
    if depth > _NARROW:
        return ops.transpose(kernel)
    # Through a third axis: a plain transpose TensorFlow would make an option of the product again.
    kernel = ops.transpose(ops.reshape(kernel, (depth, units, 1)), (1, 0, 2))
    return ops.reshape(kernel, (units, depth))


def plain_sum_over_rows(x):
    """Returns the sum of x (..., D) over all axes but the last: (D,)."""
    return ops.sum(ops.reshape(x, (-1, x.shape[-1])), axis=0)


@instead_of(plain_sum_over_rows)
def sum_over_rows(x):
    """Returns `plain_sum_over_rows` by a product, which takes TensorFlow half as long on CPUs."""
    flat = ops.reshape(x, (-1, x.shape[-1]))
    return ops.matmul(ops.ones((1, ops.shape(flat)[0]), x.dtype), flat)[0]


# --- caches --------------------------------------------------------------------------------------


def plain_write(cache, values, step):
    """Returns a cache (B, N, L * K, H) with `values` (B, N, K, H) as slots step * K and on."""
    return ops.slice_update(cache, (0, 0, step * ops.shape(values)[2], 0), values)


def plain_longer(cache, slots):
    """Returns a cache (B, N, L, H) with room for `slots` more, of zeros: (B, N, L + slots, H)."""
    return ops.pad(cache, [(0, 0), (0, 0), (0, slots), (0, 0)])


@instead_of(plain_longer)
def longer(cache, slots):
    """Returns `plain_longer`; under TensorFlow never the tensor that another cache has, too."""
    if keras.backend.backend() != "tensorflow":
        return plain_longer(cache, slots)
    import tensorflow as tf

    batch, heads, _, size = ops.shape(cache)
    # Unlike zeros or a pad it counts as an operation with effects, of which none is shared.
    room = tf.raw_ops.Empty(shape=[batch, heads, slots, size], dtype=cache.dtype, init=True)
    return tf.concat([cache, room], axis=2)


@instead_of(plain_write)
def write(cache, values, step):
    """Returns `plain_write`; under TensorFlow in the place of `cache`, which nobody may read then.

    There a `slice_update` is compiled by XLA for each shape, and like a scatter copies the cache.
    The cache is one that `longer` made: of equal tensors of a graph TensorFlow makes one.
    """
    if keras.backend.backend() != "tensorflow":
        return plain_write(cache, values, step)
    import tensorflow as tf

    batch, heads, slots, size = ops.shape(cache)
    count = ops.shape(values)[2]
    rows = tf.range(batch * heads) * (slots // count) + step
    # (B, N, L * K, H) -> (B * N * L, K * H)
    flat, values = (tf.reshape(x, (-1, count * size)) for x in (cache, values))
    flat = tf.raw_ops.InplaceUpdate(x=flat, i=rows, v=values)
    return tf.reshape(flat, (batch, heads, slots, size))


# --- layer normalization -------------------------------------------------------------------------


def plain_layer_norm(x, scale, bias, epsilon: float):
    """Returns the layer normalization of float32 (..., D)."""
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    return centred * (scale * ops.rsqrt(variance + epsilon)) + bias


@instead_of(plain_layer_norm)
def layer_norm(x, scale, bias, epsilon: float):
    """Returns `plain_layer_norm`; autodiff's gradient would pass half as often again over x."""

    @ops.custom_gradient
    def normalize(x, scale, bias):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        deviation = ops.rsqrt(variance + epsilon)
        unit = centred * deviation

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            of_scale, of_bias = sum_over_rows(upstream * unit), sum_over_rows(upstream)
            of_unit = upstream * scale
            along = ops.mean(of_unit * unit, axis=-1, keepdims=True)
            of_unit = of_unit - ops.mean(of_unit, axis=-1, keepdims=True)
            return (of_unit - unit * along) * deviation, of_scale, of_bias

        return unit * scale + bias, gradient

    return normalize(x, scale, bias)


# --- dropout -------------------------------------------------------------------------------------


def plain_dropout(x, rate: float, noise_shape, seed: keras.random.SeedGenerator):
    """Returns x with `rate` of its values 0 and the others scaled up.

    Args:
        x: of any shape.
        rate: in [0, 1].
        noise_shape: None, or x's shape with 1 at axes along which one draw serves all and None
            wherever x's own size is meant.
        seed: where the draws come from.
    """
    return keras.random.dropout(x, rate, noise_shape=noise_shape, seed=seed)


@instead_of(plain_dropout)
def dropout(x, rate: float, noise_shape, seed: keras.random.SeedGenerator):
    """Returns `plain_dropout`; under TensorFlow from 16 bits a value, not 32, in half the time.

    What is kept is scaled by the rate as it is drawn, so that the expectation stays exact.
    """
    dropped = round(rate * _DROPOUT_STEPS)
    if keras.backend.backend() != "tensorflow" or dropped in (0, _DROPOUT_STEPS):
        return plain_dropout(x, rate, noise_shape, seed)
    import tensorflow as tf

    shape = tf.shape(x)
    if noise_shape is not None:
        shape = tf.stack([shape[i] if n is None else n for i, n in enumerate(noise_shape)])
    size = tf.reduce_prod(shape)
    seeds = tf.cast(tf.math.floormod(seed.next(), tf.int32.max - 1), tf.int32)
    bits = tf.random.stateless_uniform([(size + 1) // 2], seeds, None, None, tf.uint32)
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]  # (n,) -> (n, 2) -> (2 n,)
    kept = tf.reshape(bits, shape) >= tf.constant(dropped, tf.uint16)
    return x * (tf.cast(kept, x.dtype) * (_DROPOUT_STEPS / (_DROPOUT_STEPS - dropped)))


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


@instead_of(plain_divergence)
def divergence(first, second):
    """Returns `plain_divergence`, with a gradient that passes fewer times over the logits."""

    @ops.custom_gradient
    def of_logits(first, second):
        p, q = ops.softmax(first), ops.softmax(second)
        moved = (_logsumexp(first, p) - _logsumexp(second, q))[..., None]
        difference = first - second - moved  # log p - log q
        forward = ops.sum(p * difference, axis=-1)
        backward = -ops.sum(q * difference, axis=-1)

        def gradient(*args, upstream=None):
            rows = 0.5 * (args[0] if upstream is None else upstream)[..., None]
            of_first = p * (difference - forward[..., None]) + (p - q)
            of_second = (q - p) - q * (difference + backward[..., None])
            return of_first * rows, of_second * rows

        return 0.5 * (forward + backward), gradient

    return of_logits(first, second)


# --- cross-entropy -------------------------------------------------------------------------------


def plain_cross_entropy(logits, labels, label_smoothing: float):
    """Returns the label-smoothed loss of every position.

    Args:
        logits: float32 (..., V).
        labels: int32 (...).
        label_smoothing: in [0, 1).

    Returns:
        float32 (...).
    """
    confidence, low, entropy = _smoothed_target(label_smoothing, logits.shape[-1])
    loss = ops.logsumexp(logits, axis=-1) - (confidence - low) * _of_label(logits, labels)
    return loss - low * ops.sum(logits, axis=-1) - entropy


@instead_of(plain_cross_entropy)
def cross_entropy(logits, labels, label_smoothing: float):
    """Returns `plain_cross_entropy`, whose gradient is the softmax less the target.

    What autodiff would make of it passes some ten times more often over the logits, the largest
    tensor of a step.
    """
    vocab_size = logits.shape[-1]
    confidence, low, entropy = _smoothed_target(label_smoothing, vocab_size)

    @ops.custom_gradient
    def of_logits(logits):
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


@instead_of(plain_linear_cross_entropy)
def linear_cross_entropy(x, table, labels, label_smoothing: float):
    """Returns `plain_linear_cross_entropy`, with as few passes over the logits as can be.

    With P the softmax, Y the labels as one-hot rows and r the loss's gradient, the logits' gradient
    is r (P - (confidence - low) Y - low). It is never made: all but P goes into the products'
    results, which are smaller by far. Under less than float32 P - Y would lose its digits there,
    and Y goes into P.
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
            whole_table = sum_over_rows(ops.cast(table, "float32"))
            loss = loss - low * ops.matmul(ops.cast(x, "float32"), whole_table)

        def gradient(*args, upstream=None):
            rows = ops.cast(args[0] if upstream is None else upstream, x.dtype)[:, None]
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
                of_table = of_table + -low * sum_over_rows(scaled_x)[:, None]
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
