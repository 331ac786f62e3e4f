"""Kernels written by hand for speed, each beside its plain form.

A kernel computes what its plain form does, most with a gradient of its own, in another order of
additions. T2T_REPRO_PLAIN=1 in the environment, read when this module is imported, replaces all
kernels by their plain forms, to see whether one is at fault; attention in blocks and Adam's pass
over a variable obey it too. Dropout then draws other numbers, and float32 results differ in their
last digits.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import keras
from keras import ops

PLAIN = os.environ.get("T2T_REPRO_PLAIN", "") not in ("", "0")
FORMS: dict[str, tuple[Callable, Callable]] = {}  # a kernel's name: its plain form, the kernel

Form = TypeVar("Form", bound=Callable)

# With a transposed kernel of at most this depth oneDNN is a third slower than with one laid out as
# the product reads it; beyond, there is no difference.
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
        def gradient(upstream):
            flat = ops.reshape(upstream, (-1, kernel.shape[1]))
            of_x = ops.matmul(flat, _transposed(kernel))
            of_kernel = ops.matmul(ops.transpose(ops.reshape(x, (-1, kernel.shape[0]))), flat)
            return ops.reshape(of_x, ops.shape(x)), of_kernel

        return ops.matmul(x, kernel), gradient

    return multiply(x, kernel)


@instead_of(ops.matmul)
def flat_product(x, kernel):
    """Returns x (..., D) times kernel (D, F): (..., F), in few operations if sizes are unknown."""
    shape, units = ops.shape(x), kernel.shape[1]
    known = all(isinstance(size, int) and size for size in shape[1:-1])
    first = -1 if known else shape[0]
    flat = ops.matmul(ops.reshape(x, (-1, kernel.shape[0])), kernel)
    return ops.reshape(flat, (first, *shape[1:-1], units))


def _transposed(kernel):
    """Returns kernel (D, F) as (F, D), copied where it is narrow."""
    depth, units = kernel.shape
    if depth > _NARROW:
        return ops.transpose(kernel)
    # Through a third axis: TensorFlow would turn a plain transpose into an option of the product.
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
    """Returns `plain_longer`; under TensorFlow never a tensor that another cache shares."""
    if keras.backend.backend() != "tensorflow":
        return plain_longer(cache, slots)
    import tensorflow as tf

    batch, heads, _, size = ops.shape(cache)
    # Unlike zeros or a pad it counts as an operation with effects, of which none is shared.
    room = tf.raw_ops.Empty(shape=[batch, heads, slots, size], dtype=cache.dtype, init=True)
    return tf.concat([cache, room], axis=2)


@instead_of(plain_write)
def write(cache, values, step):
    """Returns `plain_write`; under TensorFlow in place: `cache` must not be read afterwards.

    There a `slice_update` is compiled by XLA for each shape and copies the cache, as a scatter
    does. The cache must come from `longer`, because TensorFlow merges equal tensors of a graph.
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


# --- beams --------------------------------------------------------------------------------------


def plain_gather_beams(x, index):
    """Returns x (B, N, ...) at index (B, M): (B, M, ...).

    `take_along_axis` copies the index to the shape of the result, as int64, which TensorFlow's
    oneDNN complains of on processors without AVX-512.
    """
    shape = ops.shape(x)
    batch, count = shape[0], shape[1]
    rows = ops.cast(ops.arange(batch), "int32")[:, None] * count + ops.cast(index, "int32")
    # (B, N, ...) -> (B * N, ...), gathered -> (B * M, ...) -> (B, M, ...)
    flat = ops.reshape(x, (batch * count, *shape[2:]))
    picked = ops.take(flat, ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(picked, (batch, ops.shape(index)[1], *shape[2:]))


@instead_of(plain_gather_beams)
def gather_beams(x, index):
    """Returns `plain_gather_beams`; under TensorFlow by one operation instead of 20."""
    if keras.backend.backend() != "tensorflow":
        return plain_gather_beams(x, index)
    import tensorflow as tf

    return tf.gather(x, index, batch_dims=1)


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

        def gradient(upstream):
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
        noise_shape: None, or x's shape with 1 at axes that share one draw, and None for x's own
            size.
        seed: where the draws come from.
    """
    return keras.random.dropout(x, rate, noise_shape=noise_shape, seed=seed)


@instead_of(plain_dropout)
def dropout(x, rate: float, noise_shape, seed: keras.random.SeedGenerator):
    """Returns `plain_dropout`; under TensorFlow from 16 bits a value, not 32, in half the time.

    Kept values are scaled by the rate as it is drawn, so that the expectation stays exact.
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
