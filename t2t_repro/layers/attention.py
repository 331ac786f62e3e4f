"""Multi-head attention (paper, section 3.2), with the caches that step-by-step decoding needs.

As T2T's layers/common_attention.py, multihead_attention: no biases, queries scaled by H^-0.5 (other
scores are in attention_score.py). T2T's separate query, key and value kernels are one fused kernel
here. Every attention returns (outputs, weights).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import initializers, ops

from t2t_repro.errors import UserError
from t2t_repro.layers import attention_score, kernels
from t2t_repro.layers.layer import (
    FusedVariable,
    Layer,
    build_all,
    cloned,
    dropout_layer,
    fused_kernel,
)

# --- masks ---------------------------------------------------------------------------------------


class Mask(NamedTuple):
    """Said in the size of a sequence, so that nobody need hold it for all pairs at once.

    Attributes:
        queries: int32 (B, T), the segment of each query of a packed batch, which sees the keys of
            its own; None: queries see every segment but 0.
        keys: int32 (B, S), the segment of each key, 0 at padding; None: there is no padding.
        pairs: bool (B, 1 or N, T, S), True where the query may look at the key, as far as the
            others let it; None: everywhere. It alone is held for all pairs.

    As T2T's common_attention.attention_bias_ignore_padding and attention_bias_same_segment.
    """

    queries: Any = None
    keys: Any = None
    pairs: Any = None

    @property
    def causal(self) -> bool:
        """Whether nobody looks ahead. No field: Keras takes no tensors and others together."""
        return False

    def whole(self, length, source):
        """Returns bool, broadcast to (B, N, T, S): True where the query may look."""
        positions = ops.arange(length, dtype="int32"), ops.arange(source, dtype="int32")
        return self.at(*positions, self.queries, self.keys)

    def at(self, query_positions, key_positions, queries, keys):
        """Returns bool, broadcast to (B, N, T, S), for some queries and some keys.

        Args:
            query_positions: int32 (T,).
            key_positions: int32 (S,).
            queries: int32 (B, T), their part of `queries`, or None.
            keys: int32 (B, S), their part of `keys`, or None.
        """
        seen = ops.ones((1, 1, 1, 1), dtype="bool")
        if keys is not None and queries is not None:
            seen = (queries[:, :, None] == keys[:, None, :])[:, None]
        elif keys is not None:
            seen = (keys != 0)[:, None, None]
        if self.causal:
            seen = seen & (key_positions[None, :] <= query_positions[:, None])[None, None]
        if self.pairs is not None:
            seen = seen & _taken(_taken(self.pairs, query_positions, 2), key_positions, 3)
        return seen


def _taken(pairs, positions, axis: int):
    """Some positions of an axis; one of size 1 is the same for all."""
    return pairs if pairs.shape[axis] == 1 else ops.take(pairs, positions, axis=axis)


class CausalMask(Mask):
    """Queries look at their own position and those before only; T is S.

    As T2T's common_attention.attention_bias_lower_triangle.
    """

    @property
    def causal(self) -> bool:
        """Nobody looks ahead."""
        return True


EVERYWHERE = Mask()
CAUSAL = CausalMask()


def of_padding(real) -> Mask:
    """Returns the mask of bool (B, S), True at tokens."""
    return Mask(keys=ops.cast(real, "int32"))


def joined(attention_mask: Any = None, padding: Any = None, causal: bool = False) -> Mask:
    """Returns one mask of all that a layer may be given.

    Args:
        attention_mask: bool (B, T, S) or (B, N, T, S), True where the query may look at the key; an
            axis of size 1 is the same for all; or None; or a Mask, which alone counts then.
        padding: bool (B, S), True at tokens, or None.
        causal: whether nobody looks ahead.

    Raises:
        UserError: if attention_mask is one of padding.
    """
    if isinstance(attention_mask, Mask):
        return attention_mask
    keys = None if padding is None else ops.cast(padding, "int32")
    pairs = None if attention_mask is None else _of_pairs(attention_mask)
    return (CausalMask if causal else Mask)(keys=keys, pairs=pairs)


def _of_pairs(seen):
    """Returns bool (B, T, S) as (B, 1, T, S), and one that has heads as it is."""
    seen = ops.convert_to_tensor(seen)
    if len(seen.shape) not in (3, 4):
        raise UserError(
            "Expected attention_mask to be bool (B, T, S) or (B, N, T, S). Received: "
            f"{tuple(seen.shape)}. A mask (B, S) of padding is `mask`, or `x_mask` and "
            "`memory_mask` where a layer takes two sequences."
        )
    seen = ops.cast(seen, "bool")
    return seen if len(seen.shape) == 4 else seen[:, None]


# --- attention -----------------------------------------------------------------------------------


NO_WEIGHTS = (0,)
MASKED = -1e9  # the logit of what must not be looked at; T2T adds it, which comes to the same


class Attention(Layer):
    """What self- and cross-attention share: heads, softmax, output projection.

    Args:
        num_heads: N.
        key_channels: width of all heads' queries and keys together; None: D.
        value_channels: width of all heads' values together; None: D.
        dropout: rate on the weights.
        dropout_broadcast_dims: axes of (B, N, T, S) along which one draw serves all.
        kernel_initializer: of each of T2T's kernels.
        score: what makes the logits: an AttentionScore or its name. T2T's attention_variables_3d
            come with "dot_product", unscaled.
    """

    def __init__(
        self,
        num_heads: int,
        key_channels: int | None = None,
        value_channels: int | None = None,
        dropout: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        kernel_initializer="glorot_uniform",
        score="scaled_dot_product",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_channels = key_channels
        self.value_channels = value_channels
        self.dropout = dropout
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.score = attention_score.get(score, cloned(self.kernel_initializer), self.dtype_policy)
        self.drop = dropout_layer(
            dropout, self.dropout_broadcast_dims, rank=4, dtype=self.dtype_policy
        )

    def set_widths(self, depth: int) -> None:
        """Sets the widths that `key_channels` and `value_channels` leave to D.

        Raises:
            UserError: if the heads cannot share one evenly.
        """
        self.key_width = self.key_channels or depth
        self.value_width = self.value_channels or depth
        for name, width in (("key", self.key_width), ("value", self.value_width)):
            if width % self.num_heads:
                raise UserError(
                    f"Expected {name}_channels, or the model size in its place, to be a multiple "
                    f"of num_heads. Received: {width} channels, {self.num_heads} heads."
                )

    def new_kernel(self, name: str, depth: int, *sizes: int):
        """Returns a new (depth, sum of sizes) kernel whose parts are initialised one by one."""
        return fused_kernel(name, self.kernel_initializer, depth, sizes, self.variable_dtype)

    def add_output_kernel(self, depth: int):
        """Adds the (value_channels, D) kernel that joins the heads."""
        return self.add_weight(
            name="output_transform",
            shape=(self.value_width, depth),
            initializer=cloned(self.kernel_initializer),
        )

    def project(self, x, kernel, training=False):
        """(B, T, D) x (D, C) -> (B, T, C)."""
        multiply = kernels.product if training else kernels.flat_product
        return multiply(x, ops.cast(kernel, x.dtype))

    def project_heads(self, x, kernel: FusedVariable, training: bool) -> list:
        """Returns the heads (B, N, T, H) of x (B, T, D) through each part of a fused kernel."""
        parts = ops.split(self.project(x, kernel, training), kernel.cuts, axis=-1)
        return [self.split_heads(part) for part in parts]

    def split_heads(self, x):
        """(B, T, N * H) -> (B, N, T, H)."""
        length, channels = ops.shape(x)[1], x.shape[-1]
        x = ops.reshape(x, (-1, length, self.num_heads, channels // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def build_score(self):
        """Makes the score's variables, and says of which shape the weights are."""
        size = self.key_width // self.num_heads
        build_all((self.score,), (None, self.num_heads, None, size))
        build_all((self.drop,), (None, self.num_heads, None, None))

    def softmax(self, logits, mask):
        """Returns float32 weights (B, N, T, S); `mask` is True where the query may look."""
        # Not an addition: on CPUs TensorFlow would fuse it into the product before it, and that
        # kernel takes fifty times as long where the mask is the same for every sentence.
        return ops.softmax(ops.where(mask, ops.cast(logits, "float32"), MASKED), axis=-1)

    def join_heads(self, x, training=False):
        """(B, N, T, H) -> (B, T, D), through the output kernel."""
        x = ops.transpose(x, (0, 2, 1, 3))
        x = ops.reshape(x, (-1, ops.shape(x)[1], self.value_width))
        return self.project(x, self.output_transform, training)

    def logits(self, queries, keys, distance=None):
        """Returns how well each query and key match: (B, N, T, S).

        Args:
            queries: (B, N, T, H), as the score made them.
            keys: (B, N, S, H), as the score made them.
            distance: int32 (T, S), how far each key lies behind (-) or ahead (+) of each query;
                None: both are whole sequences.
        """
        return self.score(queries, keys)

    def apply_weights(self, weights, values, distance=None):
        """Returns the weighted sums (B, N, T, H') of values (B, N, S, H'); see `logits`."""
        return ops.matmul(weights, values)

    def attend(self, queries, keys, values, mask, training=False):
        """Attention over heads.

        Args:
            queries: (B, N, T, H), as the score made them.
            keys: (B, N, S, H), as the score made them.
            values: (B, N, S, H').
            mask: bool, broadcast to (B, N, T, S).

        Returns:
            (outputs (B, T, D), weights float32 (B, N, T, S)).
        """
        weights = self.softmax(self.logits(queries, keys), mask)
        dropped = self.drop(ops.cast(weights, values.dtype), training=training)
        return self.join_heads(self.apply_weights(dropped, values), training), weights

    def attend_sequence(self, queries, keys, values, mask: Mask, training=False):
        """`attend` from and to every position of a sequence.

        A kind of attention that never has the weights of all pairs has its own, and returns an
        empty array of the shape NO_WEIGHTS in their place.
        """
        seen = mask.whole(ops.shape(queries)[2], ops.shape(keys)[2])
        return self.attend(queries, keys, values, seen, training)


class WeightlessAttention(Attention):
    """What never holds the weights of all pairs: it has none to drop, and returns none.

    Args:
        num_heads, key_channels, value_channels, kernel_initializer, score: see Attention.
    """

    def __init__(
        self,
        num_heads: int,
        key_channels: int | None = None,
        value_channels: int | None = None,
        kernel_initializer="glorot_uniform",
        score="scaled_dot_product",
        **kwargs,
    ):
        super().__init__(
            num_heads,
            key_channels,
            value_channels,
            kernel_initializer=kernel_initializer,
            score=score,
            **kwargs,
        )

    def compute_output_spec(self, x, *args, **kwargs):
        # Not traced: loops over blocks of a length that is not known yet JAX does not take.
        return (
            keras.KerasTensor(x.shape, dtype=self.compute_dtype),
            keras.KerasTensor(NO_WEIGHTS, dtype="float32"),
        )


class SelfAttention(Attention):
    """Attention of a sequence to itself.

    Args:
        num_heads: N.
        key_channels: width of all heads' queries and keys together; None: D.
        value_channels: width of all heads' values together; None: D.
        dropout: rate on the weights.
        dropout_broadcast_dims: axes of (B, N, T, T) along which one draw serves all.
        kernel_initializer: of each of T2T's kernels.
        score: "scaled_dot_product", "dot_product", "multiplicative" or "additive".

    Example:

    >>> import keras
    >>> from t2t_repro.layers import SelfAttention
    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(100, 16, mask_zero=True)(ids)
    >>> y, weights = SelfAttention(num_heads=4, dropout=0.1)(x, use_causal_mask=True)
    >>> y.shape, weights.shape
    ((None, None, 16), (None, 4, None, None))
    """

    def build(self, input_shape):
        depth = input_shape[-1]
        self.set_widths(depth)
        sizes = (self.key_width, self.key_width, self.value_width)
        self.query_key_value = self.new_kernel("query_key_value", depth, *sizes)
        self.output_transform = self.add_output_kernel(depth)
        self.build_score()

    def heads(self, x, training=False):
        """Returns queries, keys and values (B, N, T, H) of x (B, T, D)."""
        queries, keys, values = self.project_heads(x, self.query_key_value, training)
        return self.score.queries(queries), self.score.keys(keys), values

    def call(
        self,
        x,
        attention_mask=None,
        mask=None,
        use_causal_mask=False,
        x_mask=None,
        training=False,
    ):
        """Maps (B, T, D) to ((B, T, D), weights float32 (B, N, T, T)).

        A query sees what all masks let it see.

        Args:
            x: (B, T, D).
            attention_mask: bool (B, T, T) or (B, N, T, T), True where a query may look at a key; or
                a Mask, which alone counts then.
            mask: bool (B, T), True at tokens; None: that of Keras, if there is one.
            use_causal_mask: whether nobody looks ahead.
            x_mask: `mask`, where Keras gives it beside an attention_mask.
            training: whether dropout is on.
        """
        seen = joined(attention_mask, x_mask if mask is None else mask, use_causal_mask)
        queries, keys, values = self.heads(x, training)
        return self.attend_sequence(queries, keys, values, seen, training)

    def initial_cache(self, batch: int) -> dict:
        """Returns the cache of `step` without room: keys (B, N, 0, H) and values (B, N, 0, H')."""
        sizes = {"keys": self.key_width, "values": self.value_width}
        return {
            name: ops.zeros(
                (batch, self.num_heads, 0, channels // self.num_heads), dtype=self.compute_dtype
            )
            for name, channels in sizes.items()
        }

    def make_room(self, cache: dict, slots: int) -> dict:
        """Returns the cache with room for `slots` keys more."""
        return {name: kernels.longer(x, slots) for name, x in cache.items()}

    def step(self, x, cache, step, mask):
        """Decodes one position of every beam; all see the keys of all, as far as the mask allows.

        Args:
            x: (B, K, D), the position `step`.
            cache: what `make_room` or the step before returned; slot l * K + k is what beam k wrote
                at position l.
            step: int32 scalar.
            mask: bool, broadcast to (B, N, K, slots): True at the slots of a beam's own past.

        Returns:
            ((B, K, D), the cache with this position in it).
        """
        queries, *new = self.heads(x)
        cache = {
            name: kernels.write(cache[name], value, step)
            for name, value in zip(("keys", "values"), new, strict=True)
        }
        beams, slots = ops.shape(x)[1], ops.shape(mask)[3]
        # (K, slots): all queries are at one position
        distance = ops.arange(slots, dtype="int32") // beams - step
        distance = ops.broadcast_to(distance, (beams, slots))
        weights = self.softmax(self.logits(queries, cache["keys"], distance), mask)
        mixed = self.apply_weights(ops.cast(weights, x.dtype), cache["values"], distance)
        return self.join_heads(mixed), cache


class CrossAttention(Attention):
    """Attention of the decoder to the encoder's output, called memory.

    Args:
        num_heads, key_channels, value_channels, dropout, dropout_broadcast_dims,
            kernel_initializer, score: see SelfAttention.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import CrossAttention
    >>> x, memory = keras.Input((3, 16)), keras.Input((5, 16))
    >>> real = keras.Input((5,), dtype="bool")
    >>> y, weights = CrossAttention(num_heads=4)(x, memory, memory_mask=real)
    >>> y.shape, weights.shape
    ((None, 3, 16), (None, 4, 3, 5))
    """

    def build(self, x_shape, memory_shape=None):
        depth = x_shape[-1]
        self.set_widths(depth)
        self.query = self.new_kernel("query", depth, self.key_width)
        rows = memory_shape[-1] if memory_shape else depth
        self.key_value = self.new_kernel("key_value", rows, self.key_width, self.value_width)
        self.output_transform = self.add_output_kernel(depth)
        self.build_score()

    def memory_heads(self, memory, training=False) -> dict:
        """Returns the keys (B, N, S, H) and values (B, N, S, H') of memory (B, S, D)."""
        keys, values = self.project_heads(memory, self.key_value, training)
        return {"keys": self.score.keys(keys), "values": values}

    def call(self, x, memory, attention_mask=None, memory_mask=None, training=False):
        """Maps (B, T, D) to ((B, T, D), weights float32 (B, N, T, S)).

        Args:
            x: (B, T, D).
            memory: (B, S, D).
            attention_mask: bool (B, T, S) or (B, N, T, S), True where a query may look at a key; or
                a Mask, which alone counts then.
            memory_mask: bool (B, S), True at tokens; None: that of Keras, if there is one.
            training: whether dropout is on.
        """
        seen = joined(attention_mask, memory_mask)
        queries = self.score.queries(self.split_heads(self.project(x, self.query, training)))
        heads = self.memory_heads(memory, training)
        keys, values = heads["keys"], heads["values"]
        return self.attend_sequence(queries, keys, values, seen, training)

    def step(self, x, heads, mask):
        """Decodes one position of every beam against memory heads that the beams share.

        Args:
            x: (B, K, D): a sentence's beams are the queries on its one memory.
            heads: what `memory_heads` returned, for B sentences.
            mask: bool, broadcast to (B, N, K, S).

        Returns:
            (B, K, D).
        """
        queries = self.score.queries(self.split_heads(self.project(x, self.query)))
        return self.attend(queries, heads["keys"], heads["values"], mask)[0]


class RelativeSelfAttention(SelfAttention):
    """Self-attention that knows how far apart two positions are (Shaw et al. 2018).

    As T2T's common_attention.dot_product_attention_relative.

    Args:
        max_relative_position: distances beyond it count as it.
        num_heads, key_channels, value_channels, dropout, dropout_broadcast_dims,
            kernel_initializer: see SelfAttention.
        score: a dot product, scaled or not.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import RelativeSelfAttention
    >>> layer = RelativeSelfAttention(max_relative_position=4, num_heads=2)
    >>> y, weights = layer(keras.Input((5, 8)))
    >>> y.shape, weights.shape
    ((None, 5, 8), (None, 2, 5, 5))
    """

    def __init__(self, max_relative_position: int, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.max_relative_position = max_relative_position

    def build(self, input_shape):
        super().build(input_shape)
        for name, channels in (("keys", self.key_width), ("values", self.value_width)):
            table = self.add_weight(
                name=f"relative_positions_{name}",
                shape=(2 * self.max_relative_position + 1, channels // self.num_heads),
                initializer=cloned(self.kernel_initializer),
            )
            setattr(self, f"relative_positions_{name}", table)

    def logits(self, queries, keys, distance=None):
        of_keys = self._at(self.relative_positions_keys, queries, keys, distance)
        return super().logits(queries, keys) + ops.einsum("bnth,tsh->bnts", queries, of_keys)

    def apply_weights(self, weights, values, distance=None):
        of_values = self._at(self.relative_positions_values, weights, values, distance)
        relative = ops.einsum("bnts,tsh->bnth", weights, of_values)
        return super().apply_weights(weights, values) + relative

    def _at(self, table, queries, keys, distance):
        """Returns the rows (T, S, H) of a table of relative positions."""
        if distance is None:
            source = ops.arange(ops.shape(keys)[2])
            distance = source[None, :] - ops.arange(ops.shape(queries)[2])[:, None]
        limit = self.max_relative_position
        rows = ops.clip(distance, -limit, limit) + limit
        return ops.cast(ops.take(table, rows, axis=0), keys.dtype)
