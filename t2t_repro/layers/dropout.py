"""Dropout that can share its draw along some axes."""

from collections.abc import Sequence

import keras

from t2t_repro.layers import kernels


@keras.saving.register_keras_serializable("t2t_repro")
class Dropout(keras.layers.Dropout):
    """Keras's Dropout, drawn by `kernels.dropout`."""

    def build(self, input_shape):
        """Has nothing to make. Keras's own is never called, so that `summary` shows no shape."""

    def call(self, inputs, training=False):
        """Returns `inputs`, in training with `rate` of them 0 and the others scaled up."""
        if not training or not self.rate:
            return inputs
        return kernels.dropout(inputs, self.rate, self.noise_shape, self.seed_generator)


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
