"""Dropout that can share its draw along some axes."""

from collections.abc import Sequence

import keras

_STEPS = 2**16  # a rate is a whole number of these parts, at most 8e-6 from the one asked for


@keras.saving.register_keras_serializable("t2t_repro")
class Dropout(keras.layers.Dropout):
    """Keras's Dropout; under TensorFlow it draws 16 bits for each value, not 32, in half the time.

    What is kept is scaled by the rate as it is drawn, so that the expectation stays exact.
    """

    def call(self, inputs, training=False):
        """Returns `inputs`, in training with `rate` of them 0 and the others scaled up."""
        dropped = round(self.rate * _STEPS)
        if not training or keras.backend.backend() != "tensorflow" or dropped in (0, _STEPS):
            return super().call(inputs, training=training)
        import tensorflow as tf

        shape = tf.shape(inputs)
        if self.noise_shape is not None:
            shape = tf.stack([shape[i] if n is None else n for i, n in enumerate(self.noise_shape)])
        size = tf.reduce_prod(shape)
        seed = tf.cast(tf.math.floormod(self.seed_generator.next(), tf.int32.max - 1), tf.int32)
        bits = tf.random.stateless_uniform([(size + 1) // 2], seed, None, None, tf.uint32)
        bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]  # (n,) -> (n, 2) -> (2 n,)
        kept = tf.reshape(bits, shape) >= tf.constant(dropped, tf.uint16)
        return inputs * (tf.cast(kept, inputs.dtype) * (_STEPS / (_STEPS - dropped)))


def dropout_layer(
    rate: float, broadcast_dims: Sequence[int], rank: int, dtype, name: str = "dropout"
) -> Dropout:
    """Returns a Dropout whose draw is shared along `broadcast_dims`.

    As T2T's layers/common_layers.py, dropout_with_broadcast_dims.

    Args:
        rate: the share of values set to 0; the others are scaled by 1 / (1 - rate).
        broadcast_dims: axes along which one draw serves all; negative axes count from the end.
        rank: the rank of the inputs.
        dtype: the policy of the layer that it belongs to.
    """
    shared = {axis % rank for axis in broadcast_dims}
    noise_shape = tuple(1 if axis in shared else None for axis in range(rank)) if shared else None
    return Dropout(rate, noise_shape=noise_shape, dtype=dtype, name=name)


def parse_dims(text: str) -> tuple[int, ...]:
    """Reads T2T's "0,1" as (0, 1); "" is no axis."""
    return tuple(int(dim) for dim in text.split(",") if dim.strip())
