"""Positions: sinusoids or learned vectors added to the embeddings (paper, section 3.5)."""

import math
from typing import Any

import numpy as np
from keras import initializers, ops

from t2t_repro.errors import unknown
from t2t_repro.layers.layer import Layer, cloned


def timing_signal(positions, channels: int):
    """Returns the sinusoids of `positions`, as T2T's common_attention.get_timing_signal_1d.

    Sines fill the first half of the channels and cosines the second; the paper's prose interleaves
    them. Always float32: bfloat16 cannot tell positions beyond 256 apart.

    Args:
        positions: float32 (...).
        channels: D; the last of an odd number stays 0.

    Returns:
        float32 (..., D).
    """
    angle = ops.cast(positions, "float32")[..., None] * inverse_timescales(channels // 2)
    halves = [ops.sin(angle), ops.cos(angle)]
    if channels % 2:
        halves.append(ops.zeros_like(angle[..., :1]))
    return ops.concatenate(halves, axis=-1)


def inverse_timescales(count: int) -> np.ndarray:
    """Returns float32 (count,): 1 down to 1e-4, evenly in the logarithm.

    One unit in the last place of a timescale moves the signal of position 100 by 1e-5. So the
    exponential is the single-precision one of Cephes, which TensorFlow 1 used, operation by
    operation: any other would give positions that differ from T2T's.
    """
    single = np.float32
    increment = single(math.log(1e4)) / single(max(count - 1, 1))
    x = np.arange(count, dtype=single) * -increment
    power = np.floor(x * single(1.44269504088896341) + single(0.5))
    rest = x - power * single(0.693359375) - power * single(-2.12194440e-4)
    polynomial = np.full_like(rest, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5):
        polynomial = polynomial * rest + single(coefficient)
    value = polynomial * (rest * rest) + rest + single(1.0)
    return np.ldexp(value, power.astype(np.int32))


class SinusoidalPositions(Layer):
    """Adds the timing signal to (B, T, D): sines and cosines, which take no variables.

    Example:

    >>> import numpy as np
    >>> from t2t_repro.layers import SinusoidalPositions
    >>> print(np.round(np.asarray(SinusoidalPositions()(np.zeros((1, 3, 4)))[0]), 2))
    [[ 0.    0.    1.    1.  ]
     [ 0.84  0.    0.54  1.  ]
     [ 0.91  0.   -0.42  1.  ]]
    """

    def call(self, x, start=0, positions=None):
        """Returns x with the signal of its positions added.

        Args:
            x: (B, T, D).
            start: the first position; the others follow.
            positions: int32 (B, T), instead of `start`.
        """
        if positions is None:
            count = ops.arange(ops.shape(x)[1], dtype="float32")
            positions = (count + ops.cast(start, "float32"))[None]
        signal = timing_signal(positions, x.shape[-1])
        return ops.cast(ops.cast(x, "float32") + signal, x.dtype)


class LearnedPositions(Layer):
    """Adds a learned vector for each position, as T2T's common_attention.add_positional_embedding.

    Positions at and beyond `max_length` get nothing added, as in T2T.

    Args:
        max_length: how many positions are learned.
        embeddings_initializer: of the (max_length, D) table.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import LearnedPositions
    >>> positions = LearnedPositions(max_length=256)
    >>> positions(keras.Input((None, 16))).shape, positions.count_params()
    ((None, None, 16), 4096)
    """

    def __init__(self, max_length: int, embeddings_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.max_length = max_length
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, input_shape[-1]),
            initializer=self.embeddings_initializer,
        )

    def call(self, x, start=0, positions=None):
        """Returns x with the vectors of its positions added; arguments as SinusoidalPositions'."""
        if positions is None:
            positions = (ops.arange(ops.shape(x)[1], dtype="int32") + start)[None]
        known = ops.cast(positions < self.max_length, x.dtype)
        rows = ops.take(self.embeddings, ops.minimum(positions, self.max_length - 1), axis=0)
        return x + ops.cast(rows, x.dtype) * known[..., None]


class NoPositions(Layer):
    """Adds nothing: the model sees a bag of words, or relative positions in its attention."""

    def call(self, x, start=0, positions=None):
        """Returns x."""
        return x


def positions(pos: str | None, max_length: int, initializer: Any, **kwargs) -> Layer:
    """Returns the layer that the hparam `pos` names.

    Args:
        pos: "timing", "emb", "none" or None.
        max_length: how many positions "emb" learns.
        initializer: of those, which gets a clone: a seeded one draws the same at every call.
    """
    match pos:
        case "timing":
            return SinusoidalPositions(**kwargs)
        case "emb":
            return LearnedPositions(max_length, cloned(initializer), **kwargs)
        case "none" | None:
            return NoPositions(**kwargs)
    raise unknown("pos", str(pos), ("timing", "emb", "none"))
