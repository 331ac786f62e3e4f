"""What happens before and after each sublayer, driven by a sequence of letters.

As T2T's layers/common_layers.py, layer_prepostprocess: "a" adds the residual, "d" is dropout, "n"
normalizes, "z" adds to the residual what a gate lets through. Post-norm ("none", "dan") and
pre-norm ("n", "da") are two values of the same setting.
"""

from collections.abc import Sequence

from keras import ops

from t2t_repro.layers.layer import Layer, build_all, dropout_layer
from t2t_repro.layers.norms import NORMS


class ZeroAdd(Layer):
    """previous + gamma * x, with a scalar gamma that begins as 0 (T2T's zero_add).

    A sublayer that is put into a trained model then changes nothing at first.
    """

    def build(self, input_shape):
        self.gamma = self.add_weight(name="gamma", shape=(1,), initializer="zeros")

    def call(self, x, previous):
        return previous + ops.cast(self.gamma, x.dtype) * x


class PrePostProcess(Layer):
    """Applies a sequence such as "none", "n", "da" or "dan" to (B, T, D).

    Args:
        sequence: letters of "adnz", or "none".
        norm_type: what "n" does: a name of NORMS.
        norm_epsilon: added to the variance.
        dropout: rate of "d".
        dropout_broadcast_dims: axes of (B, T, D) that share one draw.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import FeedForward, PrePostProcess
    >>> x = keras.Input((None, 8))
    >>> y = FeedForward(filter_size=32)(PrePostProcess("n")(x))
    >>> PrePostProcess("da", dropout=0.1)(y, previous=x).shape
    (None, None, 8)
    """

    def __init__(
        self,
        sequence: str,
        norm_type: str = "layer",
        norm_epsilon: float = 1e-6,
        dropout: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.sequence = sequence
        self.norm_type = norm_type
        self.norm_epsilon = norm_epsilon
        self.dropout = dropout
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        norm = NORMS[norm_type]
        steps = "" if sequence == "none" else sequence
        self.steps = steps if norm else steps.replace("n", "")
        self.norms = [
            norm(
                epsilon=norm_epsilon,
                dtype=self.dtype_policy,
                name=f"{norm_type}_norm" + f"_{i}" * (i > 0),
            )
            for i in range(self.steps.count("n"))
            if norm
        ]
        self.gates = [
            ZeroAdd(dtype=self.dtype_policy, name="zero_add" + f"_{i}" * (i > 0))
            for i in range(self.steps.count("z"))
        ]
        dims = self.dropout_broadcast_dims
        self.drops = [
            dropout_layer(dropout, dims, rank=3, dtype=self.dtype_policy, name=f"dropout_{i}")
            for i in range(self.steps.count("d"))
        ]

    def build(self, x_shape, previous_shape=None):
        build_all((*self.norms, *self.gates, *self.drops), x_shape)

    def call(self, x, previous=None, training=False):
        """Returns `x` after every step.

        Args:
            x: (B, T, D).
            previous: (B, T, D), the residual of "a" and "z".
            training: whether dropout is on.
        """
        norms, drops, gates = iter(self.norms), iter(self.drops), iter(self.gates)
        for step in self.steps:
            if step == "a":
                x = x + previous
            elif step == "z":
                x = next(gates)(x, previous)
            elif step == "n":
                x = next(norms)(x, training=training)
            else:
                x = next(drops)(x, training=training)
        return x
