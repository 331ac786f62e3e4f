"""The position-wise feed-forward sublayer (paper, section 3.3)."""

from collections.abc import Sequence

import keras
from keras import activations, initializers, ops

from t2t_repro.layers import kernels
from t2t_repro.layers.layer import Layer, build_all, cloned, dropout_layer


@keras.saving.register_keras_serializable("t2t_repro")
class Dense(keras.layers.Dense):
    """Keras's Dense, by the products of kernels.py."""

    def call(self, inputs, training=False):
        """Maps (..., D) to (..., F)."""
        multiply = kernels.product if training else kernels.flat_product
        y = multiply(inputs, ops.cast(self.kernel, inputs.dtype))
        return self.activation(ops.add(y, ops.cast(self.bias, y.dtype)))


class FeedForward(Layer):
    """max(0, x W1 + b1) W2 + b2, as T2T's layers/common_layers.py, dense_relu_dense.

    Args:
        filter_size: F, the inner width.
        dropout: rate after the activation (hparam relu_dropout).
        dropout_broadcast_dims: axes of (B, T, F) that share one draw.
        kernel_initializer: of both kernels; biases begin at 0.
        activation: of the inner width; of Keras, by name or as a function.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import FeedForward
    >>> layer = FeedForward(filter_size=32, dropout=0.1)
    >>> layer(keras.Input((None, 8))).shape, layer.count_params()
    ((None, None, 8), 552)
    """

    def __init__(
        self,
        filter_size: int,
        dropout: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        kernel_initializer="glorot_uniform",
        activation="relu",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filter_size = filter_size
        self.dropout = dropout
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.activation = activations.get(activation)
        self.drop = dropout_layer(
            dropout, self.dropout_broadcast_dims, rank=3, dtype=self.dtype_policy
        )

    def build(self, input_shape):
        depth, width = input_shape[-1], self.filter_size
        self.intermediate_dense = self._dense("intermediate_dense", depth, width, self.activation)
        self.output_dense = self._dense("output_dense", width, depth)
        build_all([self.drop], (None, None, width))

    def _dense(self, name: str, depth: int, units: int, activation=None) -> Dense:
        initializer = cloned(self.kernel_initializer)
        layer = Dense(
            units,
            activation,
            kernel_initializer=initializer,
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, None, depth))
        return layer

    def call(self, x, real=None, training=False):
        """Maps (B, T, D) to (B, T, D).

        Args:
            x: (B, T, D).
            real: bool (B, T) or None: where False the output is 0, as T2T's pad remover leaves it.
        """
        y = self.intermediate_dense(x, training=training)  # (B, T, D) -> (B, T, F)
        y = self.drop(y, training=training)
        y = self.output_dense(y, training=training)  # (B, T, F) -> (B, T, D)
        if real is not None:
            y = y * ops.cast(real, y.dtype)[..., None]
        return y
