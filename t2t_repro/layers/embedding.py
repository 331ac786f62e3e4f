"""The table of symbol vectors, at both ends of the model, and positions (paper, 3.4 and 3.5)."""

import math
from typing import Any

import numpy as np
from keras import initializers, ops

from t2t_repro.errors import unknown
from t2t_repro.layers.cross_entropy import tied_cross_entropy
from t2t_repro.layers.layer import Dropout, FusedVariable, Layer, build_all, cloned


class SymbolEmbedding(Layer):
    """A (V, D) table, as T2T's layers/modalities.py, symbol_bottom and symbol_top.

    Args:
        vocab_size: V.
        hidden_size: D.
        num_shards: into how many variables T2T splits the table.
        scale: multiplies the looked-up vectors; sqrt(D) in the paper (section 3.4).
        mask_zero: whether the outputs have a Keras mask, True where the id is not 0.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import SymbolEmbedding
    >>> embedding = SymbolEmbedding(vocab_size=100, hidden_size=16, mask_zero=True)
    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = embedding(ids)
    >>> x.shape, embedding(x, reverse=True).shape
    ((None, None, 16), (None, None, 100))
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        num_shards: int = 1,
        scale: float = 1.0,
        mask_zero: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs, autocast=False)  # a half-precision float is no id
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_shards = num_shards
        self.scale = scale
        self.mask_zero = mask_zero

    def build(self, input_shape=None):
        small, larger = divmod(self.vocab_size, self.num_shards)
        self.embeddings = FusedVariable(
            initializers.RandomNormal(0.0, self.hidden_size**-0.5),
            (self.vocab_size, self.hidden_size),
            self.variable_dtype,
            name="embeddings",
            axis=0,
            sizes=[small + (i < larger) for i in range(self.num_shards)],
        )

    def call(self, ids, reverse=False):
        """Maps int32 (B, T) to (B, T, D); id 0 (padding) becomes the zero vector.

        Args:
            ids: int32 (B, T).
            reverse: whether `ids` are vectors (..., D) instead, of which `logits` are returned, as
                in Keras's ReversibleEmbedding.
        """
        if reverse:
            return self.logits(ids)
        ids = ops.cast(ids, "int32")
        x = ops.take(ops.cast(self.embeddings, self.compute_dtype), ids, axis=0)
        return x * ops.cast(ops.where(ids == 0, 0.0, self.scale), x.dtype)[..., None]

    def compute_mask(self, ids, previous_mask=None):
        """Returns bool (B, T), True where the id is not 0; without ids the mask of the vectors."""
        if not self.mask_zero or ids is None:
            return previous_mask
        return ops.not_equal(ids, 0)

    def _set_mask_metadata(self, inputs, outputs, previous_mask):
        # Keras asks for the mask of the inputs, which are ambiguous: (B, D) may be ids or vectors.
        # The outputs tell: vectors of ids have one more axis.
        of_ids = len(outputs.shape) > len(inputs.shape)
        super()._set_mask_metadata(inputs if of_ids else None, outputs, previous_mask)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.hidden_size)

    def transposed(self):
        """Returns the table as (D, V)."""
        return ops.swapaxes(ops.cast(self.embeddings, self.compute_dtype), -2, -1)

    def logits(self, x, transposed=None):
        """Maps (..., D) to float32 (..., V): the product with each row of the table.

        transposed: what `transposed` returned. It saves many small products with one table a third
        of their time on CPUs.
        """
        x = ops.cast(x, self.compute_dtype)
        table = self.transposed() if transposed is None else transposed
        flat = ops.reshape(x, (-1, self.hidden_size))
        # (B * T, D) x (D, V) -> (B * T, V)
        logits = ops.cast(ops.matmul(flat, table), "float32")
        return ops.reshape(logits, (*ops.shape(x)[:-1], self.vocab_size))

    def cross_entropy(
        self, x, labels, label_smoothing: float = 0.0, sample_weight=None, compiled: bool = False
    ):
        """Returns `tied_cross_entropy` of x (B, T, D), labels int32 (B, T) and the table."""
        x = ops.cast(x, self.compute_dtype)
        table = ops.cast(self.embeddings, self.compute_dtype)
        return tied_cross_entropy(x, table, labels, label_smoothing, sample_weight, compiled)


class TokenAndPositionEmbedding(SymbolEmbedding):
    """The bottom of the model: vectors of ids times sqrt(D), plus positions, then dropout.

    As in the paper, sections 3.4, 3.5 and 5.4.

    Args:
        vocab_size: V.
        hidden_size: D.
        pos: "timing" (sinusoids), "emb" (learned) or "none".
        max_length: how many positions "emb" learns; "timing" knows them all.
        dropout: rate on the sums.
        mask_zero: whether the outputs have a Keras mask, True where the id is not 0.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import EncoderLayer, TokenAndPositionEmbedding
    >>> embedding = TokenAndPositionEmbedding(vocab_size=100, hidden_size=16, mask_zero=True)
    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = EncoderLayer(num_heads=4, filter_size=32)(embedding(ids), use_causal_mask=True)
    >>> keras.Model(ids, embedding(x, reverse=True)).output_shape
    (None, None, 100)
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        pos: str = "timing",
        max_length: int = 256,
        dropout: float = 0.0,
        mask_zero: bool = False,
        **kwargs,
    ):
        scale = hidden_size**0.5
        super().__init__(vocab_size, hidden_size, scale=scale, mask_zero=mask_zero, **kwargs)
        self.pos = pos
        self.max_length = max_length
        self.dropout = dropout
        policy = self.dtype_policy
        initializer = initializers.GlorotUniform()
        self.position_embedding = positions(
            pos, max_length, initializer, dtype=policy, name="position_embedding"
        )
        self.drop = Dropout(dropout, dtype=policy, name="dropout")

    def build(self, input_shape=None):
        super().build(input_shape)
        build_all([self.position_embedding, self.drop], (None, None, self.hidden_size))

    def call(self, ids, reverse=False, training=False):
        """Maps int32 (B, T) to (B, T, D).

        Args:
            ids: int32 (B, T).
            reverse: whether `ids` are vectors (..., D) instead, of which come logits, float32
                (..., V).
            training: whether dropout is on.
        """
        x = super().call(ids, reverse)
        return x if reverse else self.drop(self.position_embedding(x), training=training)


class TargetSpaceEmbedding(Layer):
    """Adds the vector of the target space to every input position.

    As T2T's layers/transformer_layers.py, transformer_prepare_encoder: 32 kinds at most.

    Args:
        target_space_id: which kind (problem.SpaceID).
        embeddings_initializer: of the (32, D) table.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import TargetSpaceEmbedding
    >>> TargetSpaceEmbedding(target_space_id=4)(keras.Input((5, 8))).shape
    (None, 5, 8)
    """

    NUM_SPACES = 32

    def __init__(self, target_space_id: int, embeddings_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.target_space_id = target_space_id
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.NUM_SPACES, input_shape[-1]),
            initializer=self.embeddings_initializer,
        )

    def call(self, x):
        """Maps (B, S, D) to (B, S, D)."""
        return x + ops.cast(self.embeddings[self.target_space_id], x.dtype)


# --- positions -----------------------------------------------------------------------------------


def timing_signal(positions, channels: int):
    """Returns the sinusoids of `positions`, as T2T's common_attention.get_timing_signal_1d.

    Sines fill the first half of the channels and cosines the second; the paper's prose interleaves
    them. Always float32: bfloat16 does not distinguish positions beyond 256.

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
        initializer: of those; a clone is used, since a seeded one draws the same at every call.
    """
    match pos:
        case "timing":
            return SinusoidalPositions(**kwargs)
        case "emb":
            return LearnedPositions(max_length, cloned(initializer), **kwargs)
        case "none" | None:
            return NoPositions(**kwargs)
    raise unknown("pos", str(pos), ("timing", "emb", "none"))
