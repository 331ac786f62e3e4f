"""Positions: sinusoids or learned vectors added to the embeddings (paper, section 3.5)."""

import math

import keras
from keras import initializers, ops


def timing_signal(positions, channels: int):
    """Returns the sinusoids of `positions`, as T2T's common_attention.get_timing_signal_1d.

    Sines fill the first half of the channels and cosines the second; the paper's prose interleaves
    them. Always float32: bfloat16 cannot tell positions beyond 256 apart.

    Args:
        positions: float32 (...).
        channels: D, even.

    Returns:
        float32 (..., D).
    """
    timescales = channels // 2
    increment = math.log(1e4) / max(timescales - 1, 1)
    inverse = ops.exp(ops.arange(timescales, dtype="float32") * -increment)
    angle = ops.cast(positions, "float32")[..., None] * inverse
    return ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=-1)


class SinusoidalPositions(keras.layers.Layer):
    """Adds the timing signal to (B, T, D)."""

    def call(self, x, start=0):
        """Returns x with the signal of positions start, start + 1, ... added."""
        positions = ops.arange(ops.shape(x)[1], dtype="float32") + ops.cast(start, "float32")
        signal = timing_signal(positions, x.shape[-1])
        return ops.cast(ops.cast(x, "float32") + signal[None], x.dtype)


class LearnedPositions(keras.layers.Layer):
    """Adds a learned vector for each position, as T2T's common_attention.add_positional_embedding.

    Positions at and beyond `max_length` get nothing added, as in T2T.

    Args:
        max_length: how many positions are learned.
        embeddings_initializer: of the (max_length, D) table.
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

    def call(self, x, start=0):
        """Returns x with the vectors of positions start, start + 1, ... added."""
        positions = ops.arange(ops.shape(x)[1], dtype="int32") + start
        known = ops.cast(positions < self.max_length, x.dtype)
        rows = ops.take(self.embeddings, ops.minimum(positions, self.max_length - 1), axis=0)
        return x + (ops.cast(rows, x.dtype) * known[:, None])[None]

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
        }


class NoPositions(keras.layers.Layer):
    """Adds nothing: the model sees a bag of words, or relative positions in its attention."""

    def call(self, x, start=0):
        """Returns x."""
        return x
