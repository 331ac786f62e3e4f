"""Which of a sentence's rows, such as its beams, go on."""

import keras
from keras import ops

from t2t_repro.layers.kernels import instead_of


def plain_pick(x, index):
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


@instead_of(plain_pick)
def pick(x, index):
    """Returns `plain_pick`; under TensorFlow by one operation, where the plain form has 20."""
    if keras.backend.backend() != "tensorflow":
        return plain_pick(x, index)
    import tensorflow as tf

    return tf.gather(x, index, batch_dims=1)
