"""Multi-head attention (paper, section 3.2), with the caches that step-by-step decoding needs.

As T2T's layers/common_attention.py, multihead_attention: no biases, queries scaled by H^-0.5. T2T's
separate query, key and value kernels are one fused kernel here. Masks tell which positions may look
at which, scores how well they match. Every attention returns (outputs, weights).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import initializers, ops

from t2t_repro.errors import UserError
from t2t_repro.layers import kernels
from t2t_repro.layers.blockwise_attention import MASKED, blockwise_attention
from t2t_repro.layers.layer import (
    FusedVariable,
    Layer,
    build_all,
    cloned,
    dropout_layer,
    larger,
    smaller,
)

# --- masks ---------------------------------------------------------------------------------------


class Mask(NamedTuple):
    """Which queries may look at which keys, in the size of a sequence: no mask of all pairs is
    held.

    Attributes:
        queries: int32 (B, T), the segment of each query of a packed batch, which sees the keys of
            its own; None: queries see every segment but 0.
        keys: int32 (B, S), the segment of each key, 0 at padding; None: there is no padding.
        pairs: bool (B, 1 or N, T, S), True where the query may look at the key, if the others allow
            it too; None: everywhere. Only this is held for all pairs.

    As T2T's common_attention.attention_bias_ignore_padding and attention_bias_same_segment.
    """

    queries: Any = None
    keys: Any = None
    pairs: Any = None

    @property
    def causal(self) -> bool:
        """Whether it is causal. A property: Keras does not take tensors and other values
        together."""
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
    """Returns some positions of an axis; one of size 1 is the same for all."""
    return pairs if pairs.shape[axis] == 1 else ops.take(pairs, positions, axis=axis)


class CausalMask(Mask):
    """Queries look at their own position and those before only; T is S.

    As T2T's common_attention.attention_bias_lower_triangle.
    """

    @property
    def causal(self) -> bool:
        """It is causal."""
        return True


EVERYWHERE = Mask()
CAUSAL = CausalMask()


def of_padding(real) -> Mask:
    """Returns the mask of bool (B, S), True at tokens."""
    return Mask(keys=ops.cast(real, "int32"))


def joined(attention_mask: Any = None, padding: Any = None, causal: bool = False) -> Mask:
    """Returns one mask that joins all masks of a layer.

    Args:
        attention_mask: bool (B, T, S) or (B, N, T, S), True where the query may look at the key; an
            axis of size 1 is the same for all; or None; or a Mask, which replaces all others.
        padding: bool (B, S), True at tokens, or None.
        causal: whether attention is causal.

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
            "Expected attention_mask to be bool of shape (B, T, S) or (B, N, T, S). Received: "
            f"{tuple(seen.shape)}. Pass a padding mask (B, S) as `mask`, or, to a layer of two "
            "sequences, as `x_mask` or `memory_mask`."
        )
    seen = ops.cast(seen, "bool")
    return seen if len(seen.shape) == 4 else seen[:, None]


# --- scores --------------------------------------------------------------------------------------

#     scaled_dot_product   q k / sqrt(H)         (paper, 3.2.1)
#     dot_product          q k                   (Luong et al. 2015)
#     multiplicative       q W k                 (Luong et al. 2015, "general")
#     additive             v tanh(W q + U k)     (Bahdanau et al. 2015)


class AttentionScore(Layer):
    """How well a query matches a key: the logits of attention, before softmax.

    This base class is the dot product. Every head has its own matrices (H, H) and vectors (H).
    `keys` is computed once; the caches of step-by-step decoding hold what it returns.

    Args:
        kernel_initializer: of each head's matrices.
    """

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        kwargs.setdefault("name", "score")
        super().__init__(**kwargs)
        self.kernel_initializer = initializers.get(kernel_initializer)

    def through(self, x, kernel):
        """Returns x (B, N, T, H) times each head's matrix of `kernel` (H, N * H): (B, N, T, H)."""
        _, heads, _, size = x.shape
        # (H, N * H) -> (H, N, H)
        kernel = ops.reshape(ops.cast(kernel, x.dtype), (size, heads, size))
        return ops.einsum("bnth,hnk->bntk", x, kernel)

    def queries(self, queries):
        """Returns the queries as `call` takes them: (B, N, T, H)."""
        return queries

    def keys(self, keys):
        """Returns the keys as `call` takes them: (B, N, S, H)."""
        return keys

    def score_weights(self) -> list:
        """Returns the variables that `scores` needs."""
        return []

    def call(self, queries, keys):
        """Returns the logits (B, N, T, S) of what `queries` and `keys` returned."""
        return self.scores(queries, keys, self.score_weights())

    def scores(self, queries, keys, variables: list):
        """Returns the logits (B, N, T, S)."""
        return ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))

    def gradients(self, queries, keys, variables: list, upstream):
        """Returns the gradients of `scores`: of queries, of keys and of each variable.

        For attention in blocks, which computes the logits again when it needs them.

        Args:
            queries, keys, variables: what `scores` received.
            upstream: (B, N, T, S), the gradient of the logits.
        """
        of_queries = ops.matmul(upstream, keys)
        return of_queries, ops.matmul(ops.transpose(upstream, (0, 1, 3, 2)), queries), []


class DotProduct(AttentionScore):
    """q k: T2T's score with attention_variables_3d."""


class ScaledDotProduct(DotProduct):
    """q k / sqrt(H): the logits have the variance of one component of queries and keys."""

    def queries(self, queries):
        return queries * queries.shape[-1] ** -0.5


class Multiplicative(AttentionScore):
    """q W k."""

    def build(self, input_shape):
        _, heads, _, size = input_shape
        self.query_kernel = self.fused_kernel("query_kernel", [size], [size] * heads)

    def queries(self, queries):
        return self.through(queries, self.query_kernel)


class Additive(AttentionScore):
    """v tanh(W q + U k); before the product with v it holds (B, N, T, S, H)."""

    def build(self, input_shape):
        _, heads, _, size = input_shape
        self.query_kernel = self.fused_kernel("query_kernel", [size], [size] * heads)
        self.key_kernel = self.fused_kernel("key_kernel", [size], [size] * heads)
        self.vector = self.fused_kernel("vector", [size], [1] * heads)  # (H, N)

    def queries(self, queries):
        return self.through(queries, self.query_kernel)

    def keys(self, keys):
        return self.through(keys, self.key_kernel)

    def score_weights(self):
        return [ops.copy(self.vector)]  # a tensor: no gradient of our own may see a variable

    def scores(self, queries, keys, variables):
        vector = ops.cast(variables[0], queries.dtype)
        return ops.einsum("bntsh,hn->bnts", self._hidden(queries, keys), vector)

    def gradients(self, queries, keys, variables, upstream):
        vector = ops.cast(variables[0], queries.dtype)
        hidden = self._hidden(queries, keys)
        of_vector = ops.einsum("bnts,bntsh->hn", upstream, hidden)
        inner = ops.einsum("bnts,hn->bntsh", upstream, vector) * (1 - ops.square(hidden))
        return ops.sum(inner, axis=3), ops.sum(inner, axis=2), [of_vector]

    def _hidden(self, queries, keys):
        # (B, N, T, 1, H) + (B, N, 1, S, H) -> (B, N, T, S, H)
        return ops.tanh(queries[:, :, :, None] + keys[:, :, None])


SCORES: dict[str, type[AttentionScore]] = {
    "scaled_dot_product": ScaledDotProduct,
    "dot_product": DotProduct,
    "multiplicative": Multiplicative,
    "additive": Additive,
}


def get_score(score: Any, kernel_initializer="glorot_uniform", dtype=None) -> AttentionScore:
    """Returns the score of a name in SCORES; a score itself is returned unchanged.

    Args:
        score: a name, or a score.
        kernel_initializer, dtype: of a score that is made from its name.
    """
    if isinstance(score, AttentionScore):
        return score
    return SCORES[score](kernel_initializer, dtype=dtype)


# --- attention -----------------------------------------------------------------------------------


NO_WEIGHTS = (0,)  # the shape of what attention returns that never has the weights of all pairs


class Attention(Layer):
    """What self- and cross-attention share: heads, softmax, output projection.

    In chunks it computes the same in less memory; weights are then neither dropped nor returned.

    Args:
        num_heads: N.
        key_channels: width of all heads' queries and keys together; None: D.
        value_channels: width of all heads' values together; None: D.
        dropout: rate on the weights.
        dropout_broadcast_dims: axes of (B, N, T, S) that share one draw.
        kernel_initializer: of each of T2T's kernels.
        score: what makes the logits: an AttentionScore or its name. T2T's attention_variables_3d
            come with "dot_product", unscaled.
        chunk_size: how many keys go together (hparam attention_chunk_size); 0: all.

    Raises:
        UserError: if dropout or relative positions are asked for and there are no weights.
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
        chunk_size: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_channels = key_channels
        self.value_channels = value_channels
        self.dropout = dropout
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.score = get_score(score, cloned(self.kernel_initializer), self.dtype_policy)
        self.chunk_size = chunk_size
        relative = type(self).logits is not Attention.logits
        if not self.has_weights and (dropout or relative):
            raise UserError(
                "Expected no dropout and no relative positions in chunked or local attention. "
                f"Received: dropout={dropout}, {type(self).__name__}."
            )
        self.drop = dropout_layer(
            dropout, self.dropout_broadcast_dims, rank=4, dtype=self.dtype_policy
        )

    @property
    def has_weights(self) -> bool:
        """Whether the weights of all pairs are computed, and returned."""
        return not self.chunk_size

    def compute_output_spec(self, x, *args, **kwargs):
        if self.has_weights:
            return super().compute_output_spec(x, *args, **kwargs)
        # Not traced: JAX does not take loops over an unknown number of blocks.
        return (
            keras.KerasTensor(x.shape, dtype=self.compute_dtype),
            keras.KerasTensor(NO_WEIGHTS, dtype="float32"),
        )

    def set_widths(self, depth: int) -> None:
        """Sets the widths of keys and values; by default they are D.

        Raises:
            UserError: if one is no multiple of num_heads.
        """
        self.key_width = self.key_channels or depth
        self.value_width = self.value_channels or depth
        for name, width in (("key", self.key_width), ("value", self.value_width)):
            if width % self.num_heads:
                raise UserError(
                    f"Expected {name}_channels (0: the model size) to be a multiple of num_heads. "
                    f"Received: {width} channels, {self.num_heads} heads."
                )

    def build_output(self, depth: int):
        """Makes the (value_channels, D) kernel that joins the heads, and the score's variables."""
        self.output_transform = self.add_weight(
            name="output_transform",
            shape=(self.value_width, depth),
            initializer=cloned(self.kernel_initializer),
        )
        size = self.key_width // self.num_heads
        build_all((self.score,), (None, self.num_heads, None, size))
        build_all((self.drop,), (None, self.num_heads, None, None))

    def project(self, x, kernel, training=False):
        """Returns x (B, T, D) times kernel (D, C): (B, T, C)."""
        multiply = kernels.product if training else kernels.flat_product
        return multiply(x, ops.cast(kernel, x.dtype))

    def project_heads(self, x, kernel: FusedVariable, training: bool) -> list:
        """Returns the heads (B, N, T, H) of x (B, T, D) through each part of a fused kernel."""
        parts = ops.split(self.project(x, kernel, training), kernel.cuts, axis=-1)
        return [self.split_heads(part) for part in parts]

    def split_heads(self, x):
        """Maps (B, T, N * H) to (B, N, T, H)."""
        length, channels = ops.shape(x)[1], x.shape[-1]
        x = ops.reshape(x, (-1, length, self.num_heads, channels // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def softmax(self, logits, mask):
        """Returns float32 weights (B, N, T, S); `mask` is True where the query may look."""
        # Not an addition: on CPUs TensorFlow would fuse it into the product before it, and that
        # kernel takes fifty times as long if all sentences share a mask.
        return ops.softmax(ops.where(mask, ops.cast(logits, "float32"), MASKED), axis=-1)

    def join_heads(self, x, training=False):
        """Maps (B, N, T, H) to (B, T, D), through the output kernel."""
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

        Without weights of all pairs it returns an array of the shape NO_WEIGHTS in their place.
        """
        if self.has_weights or kernels.PLAIN:
            seen = mask.whole(ops.shape(queries)[2], ops.shape(keys)[2])
            outputs, weights = self.attend(queries, keys, values, seen, training)
            return outputs, weights if self.has_weights else ops.zeros(NO_WEIGHTS)
        mixed = blockwise_attention(queries, keys, values, mask, self.score, self.chunk_size)
        return self.join_heads(mixed, training), ops.zeros(NO_WEIGHTS)


class SelfAttention(Attention):
    """Attention of a sequence to itself.

    Args:
        num_heads: N.
        key_channels: width of all heads' queries and keys together; None: D.
        value_channels: width of all heads' values together; None: D.
        dropout: rate on the weights.
        dropout_broadcast_dims: axes of (B, N, T, T) that share one draw.
        kernel_initializer: of each of T2T's kernels.
        score: "scaled_dot_product", "dot_product", "multiplicative" or "additive".
        chunk_size: how many keys go together, for little memory; 0: all. In chunks there is no
            dropout of weights, and they are not returned.

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
        self.query_key_value = self.fused_kernel("query_key_value", [depth], sizes)
        self.build_output(depth)

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

        All masks apply together.

        Args:
            x: (B, T, D).
            attention_mask: bool (B, T, T) or (B, N, T, T), True where a query may look at a key; or
                a Mask, which replaces all others.
            mask: bool (B, T), True at tokens; None: that of Keras, if there is one.
            use_causal_mask: whether attention is causal.
            x_mask: `mask`, as Keras names it beside an attention_mask.
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
        """Returns the cache with room for `slots` more keys."""
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
            kernel_initializer, score, chunk_size: see SelfAttention.

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
        self.query = self.fused_kernel("query", [depth], [self.key_width])
        rows = memory_shape[-1] if memory_shape else depth
        sizes = (self.key_width, self.value_width)
        self.key_value = self.fused_kernel("key_value", [rows], sizes)
        self.build_output(depth)

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
                a Mask, which replaces all others.
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
        max_relative_position: larger distances are clipped to it.
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


class LocalSelfAttention(SelfAttention):
    """Positions in blocks; each looks at its own block and at some before it (paper, section 4).

    As T2T's layers/common_attention.py. Masked, masked_local_attention_1d (self_attention_type
    local_mask_right): its own block up to itself, and the block before. Not masked,
    local_attention_1d (local_unmasked) with a filter as wide as a block, as its Transformer calls
    it: its own block wholly and the two before. (T2T's words promise the blocks to the left and to
    the right, but where the filter is a multiple of the block its slices begin one block early.)

    As in T2T, weights are not dropped here.

    Args:
        block_length: of a block; T2T's Transformer always takes 128.
        masked: whether attention is causal.
        num_heads, key_channels, value_channels, kernel_initializer, score: see SelfAttention.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import LocalSelfAttention
    >>> layer = LocalSelfAttention(block_length=4, masked=True, num_heads=2)
    >>> y, no_weights = layer(keras.Input((11, 8)))
    >>> y.shape
    (None, 11, 8)
    """

    has_weights = False

    def __init__(self, block_length: int, masked: bool, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.block_length = block_length
        self.masked = masked

    def attend_sequence(self, queries, keys, values, mask: Mask, training=False):
        """Returns ((B, T, D), no weights).

        Raises:
            UserError: if the mask is one of pairs.
        """
        if mask.pairs is not None:
            raise UserError(
                "Expected a padding mask: local attention does not compute all query-key pairs. "
                "Received: attention_mask. Pass `mask`, bool (B, T), or use SelfAttention."
            )
        # Not the keys' own: TensorFlow's reshape would make one sentence of none.
        batch, length = ops.shape(keys if mask.keys is None else mask.keys)[0], ops.shape(keys)[2]
        size = larger(smaller(length, self.block_length), 1)
        blocks = larger(-(-length // size), 1)  # nothing is one block, of padding
        before = smaller(blocks - 1, 1 if self.masked else 2)  # blocks that a query sees, too

        def in_blocks(x, before=0):
            """(B, N, T, H) -> (B, N, before + blocks, size, H), with zeros around."""
            room = [(0, 0), (0, 0), (before * size, blocks * size - length), (0, 0)]
            shape = (ops.shape(x)[0], x.shape[1], before + blocks, size, x.shape[3])
            return ops.reshape(ops.pad(x, room), shape)

        def as_rows(x):
            """(B, N, blocks, T, H) -> (B * blocks, N, T, H)."""
            x = ops.transpose(x, (0, 2, 1, 3, 4))
            return ops.reshape(x, (-1, *ops.shape(x)[2:]))

        def near(x):
            """(B, N, S, H) -> (B * blocks, N, (before + 1) * size, H), what each block sees."""
            own = ops.arange(blocks, dtype="int32")[:, None] + ops.arange(before + 1, dtype="int32")
            x = ops.take(in_blocks(x, before), own, axis=2)
            shape = ops.shape(x)
            return as_rows(ops.reshape(x, (*shape[:3], (before + 1) * size, shape[5])))

        # Segments (B, T) as they are cut: 0, and hidden, beyond both ends.
        of_keys = ops.ones((batch, length), "int32") if mask.keys is None else mask.keys
        of_keys, of_queries = near(of_keys[:, None, :, None])[:, 0, :, 0], mask.queries
        if of_queries is not None:
            of_queries = as_rows(in_blocks(of_queries[:, None, :, None]))[:, 0, :, 0]
        positions = ops.arange((before + 1) * size, dtype="int32")
        kind = CausalMask if self.masked or mask.causal else Mask
        seen = kind().at(positions[before * size :], positions, of_queries, of_keys)
        weights = self.softmax(self.logits(as_rows(in_blocks(queries)), near(keys)), seen)
        mixed = self.apply_weights(ops.cast(weights, values.dtype), near(values))
        # (B * blocks, N, size, H') -> (B, N, blocks * size, H')
        width = values.shape[3]
        mixed = ops.reshape(mixed, (batch, blocks, self.num_heads, size, width))
        mixed = ops.transpose(mixed, (0, 2, 1, 3, 4))
        mixed = ops.reshape(mixed, (batch, self.num_heads, blocks * size, width))
        return self.join_heads(mixed[:, :, :length], training), ops.zeros(NO_WEIGHTS)

    def step(self, x, cache, step, mask):
        """Decodes one position, as SelfAttention.step, which is masked in any case."""
        positions = ops.arange(ops.shape(mask)[3], dtype="int32") // ops.shape(x)[1]
        first = (step // self.block_length - 1) * self.block_length
        return super().step(x, cache, step, mask & (positions >= first))
