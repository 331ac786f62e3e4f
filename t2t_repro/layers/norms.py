"""tensor2tensor's norms, as its layers/common_layers.py computes them, in float32."""

from keras import ops

from t2t_repro.layers import kernels
from t2t_repro.layers.layer import Layer

_GROUPS = 8


class Norm(Layer):
    """A norm of (..., D), with variables `scale` and `bias`, both (D,).

    Args:
        epsilon: what keeps a divisor from being 0.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        depth = input_shape[-1]
        self.scale = self.add_weight(name="scale", shape=(depth,), initializer="ones")
        self.bias = self.add_weight(name="bias", shape=(depth,), initializer="zeros")

    def call(self, x, training=False):
        scale, bias = ops.cast(self.scale, "float32"), ops.cast(self.bias, "float32")
        y = self.normalized(ops.cast(x, "float32")) * scale + bias
        return ops.cast(y, self.compute_dtype)

    def normalized(self, x):
        """Returns float32 x (..., D) without scale and bias."""
        raise NotImplementedError


class LayerNorm(Norm):
    """Layer normalization over the last axis (Ba et al. 2016), computed in float32.

    As T2T's layers/common_layers.py, layer_norm: variables `scale` and `bias`, both (D,).

    Args:
        epsilon: added to the variance.

    Example:

    >>> import numpy as np
    >>> from t2t_repro.layers import LayerNorm
    >>> print(np.round(LayerNorm()(np.array([[1.0, 2.0, 3.0]])), 2))
    [[-1.22  0.    1.22]]
    """

    def call(self, x, training=False):
        scale, bias = ops.cast(self.scale, "float32"), ops.cast(self.bias, "float32")
        normalize = kernels.layer_norm if training else kernels.plain_layer_norm
        y = normalize(ops.cast(x, "float32"), scale, bias, self.epsilon)
        return ops.cast(y, self.compute_dtype)


class L2Norm(Norm):
    """Centred, and of length 1: layer normalization divided by sqrt(D) (T2T's l2_norm)."""

    def normalized(self, x):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        square = ops.sum(ops.square(centred), axis=-1, keepdims=True)
        return centred * ops.rsqrt(square + self.epsilon)


class GroupNorm(Norm):
    """Normalizes each eighth of D over all positions of (B, T, D) (Wu & He 2018; group_norm).

    Padding and later positions count, so it is no norm for a decoder.
    """

    def normalized(self, x):
        shape = ops.shape(x)
        # (B, T, D) -> (B, T, groups, D / groups)
        x = ops.reshape(x, (*shape[:-1], _GROUPS, shape[-1] // _GROUPS))
        mean, variance = ops.moments(x, axes=[1, 3], keepdims=True)
        return ops.reshape((x - mean) * ops.rsqrt(variance + self.epsilon), shape)


class BatchNorm(Norm):
    """What T2T's Transformer makes of batch normalization: a scale and a bias.

    T2T makes the layer without saying when it trains, so that it always takes the moving statistics
    and never moves them from mean 0 and variance 1. They are variables all the same, which its
    checkpoints hold.
    """

    def build(self, input_shape):
        super().build(input_shape)
        still = {"shape": (input_shape[-1],), "trainable": False}
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", **still)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", **still)

    def normalized(self, x):
        statistics = self.moving_mean, self.moving_variance
        mean, variance = (ops.cast(each, "float32") for each in statistics)
        return (x - mean) * ops.rsqrt(variance + self.epsilon)


class NoamNorm(Layer):
    """Of length sqrt(D), neither centred nor scaled: it has no variables (T2T's noam_norm).

    Args:
        epsilon: the least square of a length.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def call(self, x, training=False):
        x = ops.cast(x, "float32")
        square = ops.sum(ops.square(x), axis=-1, keepdims=True)
        y = x * ops.rsqrt(ops.maximum(square, self.epsilon)) * x.shape[-1] ** 0.5
        return ops.cast(y, self.compute_dtype)


NORMS: dict[str, type[Layer] | None] = {
    "layer": LayerNorm,
    "group": GroupNorm,
    "batch": BatchNorm,
    "noam": NoamNorm,
    "l2": L2Norm,
    "none": None,
}
