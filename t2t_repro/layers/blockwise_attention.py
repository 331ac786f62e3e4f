"""Attention in blocks: the result of softmax(Q K^T) V without ever holding its weights.

Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory" (https://arxiv.org/abs/2112.05682).
The keys are gone through block by block, keeping for each query the largest logit so far, the sum
of exponentials and the weighted sum of values; both sums shrink when a larger logit comes. The
gradient makes the logits again, block by block, from what each query's sum was.
"""

import math

from keras import ops

from t2t_repro.layers import kernels
from t2t_repro.layers.attention import (
    MASKED,
    NO_WEIGHTS,
    CrossAttention,
    Mask,
    SelfAttention,
    WeightlessAttention,
)
from t2t_repro.layers.attention_score import AttentionScore, DotProduct

QUERY_BLOCK = 256
_TINY = 1e-30


def blockwise_attention(
    queries,
    keys,
    values,
    mask: Mask | None = None,
    score: AttentionScore | None = None,
    query_block: int = QUERY_BLOCK,
    key_block: int | None = None,
):
    """Attends as Attention.attend does before its output kernel, but returns no weights.

    Beside inputs and outputs it holds `query_block` times `key_block` logits a head: with the
    default, in the order of sqrt(S). Its gradient holds as much, and a gradient for each input.

    Args:
        queries: (B, N, T, H), as the score made them.
        keys: (B, N, S, H), as the score made them; S must be known here if `key_block` is None.
        values: (B, N, S, H').
        mask: who may look at whom; None: all at all.
        score: what makes the logits; None: dot products.
        query_block: how many queries go together.
        key_block: how many keys; None: the square root of S, rounded up.

    Returns:
        (B, N, T, H'), of the values' dtype. Sums are float32.
    """
    score = score or DotProduct()
    key_block = key_block or math.isqrt(keys.shape[2] - 1) + 1
    blocks = _Blocks(ops.shape(queries)[2], ops.shape(keys)[2], query_block, key_block)

    @ops.custom_gradient
    def attend(queries, keys, values, *variables):
        pairs = _Pairs(blocks, mask or Mask(), score, (queries, keys, list(variables)))
        outputs, sums = _outputs(pairs, values)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            return _gradients(pairs, values, outputs, sums, upstream)

        return outputs, gradient

    variables = score.score_weights()
    return attend(*(ops.convert_to_tensor(x) for x in (queries, keys, values)), *variables)


class _Blocks:
    """Where blocks of queries and of keys begin; sizes may be known only when it runs."""

    def __init__(self, length, source, query_block: int, key_block: int):
        self.length, self.source = length, source
        self.query_block, self.key_block = _least(length, query_block), _least(source, key_block)
        self.of_queries = -(-length // self.query_block)
        self.of_keys = -(-source // self.key_block)

    def queries(self, number):
        """Returns (start, int32 positions, float32 (T, 1): 1 where no block before had it)."""
        return self._at(number, self.query_block, self.length)

    def keys(self, number):
        """Returns the same of a block of keys."""
        return self._at(number, self.key_block, self.source)

    def _at(self, number, size, length):
        # The last block begins early enough to be whole: some positions are in two, and count once.
        start = ops.minimum(number * size, length - size)
        positions = start + ops.arange(size, dtype="int32")
        return start, positions, ops.cast(positions >= number * size, "float32")[:, None]


class _Pairs:
    """The logits of a block of queries and a block of keys."""

    def __init__(self, blocks: _Blocks, mask: Mask, score: AttentionScore, inputs):
        self.blocks, self.mask, self.score = blocks, mask, score
        self.queries, self.keys, self.variables = inputs

    def masked(self, query_number, key_number):
        """Returns (logits float32 (B, N, t, s), bool: True where the query may look)."""
        blocks, mask = self.blocks, self.mask
        query_start, query_positions, _ = blocks.queries(query_number)
        key_start, key_positions, _ = blocks.keys(key_number)
        segments = (
            None if mask.queries is None else _rows(mask.queries, query_start, blocks.query_block),
            None if mask.keys is None else _rows(mask.keys, key_start, blocks.key_block),
        )
        seen = mask.at(query_positions, key_positions, *segments)
        logits = self.score.pairs(
            _cut(self.queries, query_start, blocks.query_block),
            _cut(self.keys, key_start, blocks.key_block),
            self.variables,
        )
        return ops.where(seen, ops.cast(logits, "float32"), MASKED), seen


def _outputs(pairs: _Pairs, values):
    """Returns the outputs (B, N, T, H'), and of each query its largest logit and the sum of the
    powers, e to what is less than that (B, N, T, 2).

    The two stay apart: where nothing may be looked at, the first is too large to hold the other's
    logarithm in float32.
    """
    blocks = pairs.blocks
    batch, heads, width = ops.shape(values)[0], values.shape[1], values.shape[3]
    rows = (batch, heads, blocks.query_block)

    def of_queries(query_number, done):
        def of_keys(key_number, state):
            largest, total, mixed = state
            start, _, new = blocks.keys(key_number)
            logits, _ = pairs.masked(query_number, key_number)
            now = ops.maximum(largest, ops.max(logits, axis=-1, keepdims=True))
            powers = ops.exp(logits - now) * new[:, 0]
            shrink = ops.exp(largest - now)
            of_values = ops.cast(_cut(values, start, blocks.key_block), "float32")
            total = total * shrink + ops.sum(powers, axis=-1, keepdims=True)
            return now, total, mixed * shrink + ops.matmul(powers, of_values)

        state = (
            ops.full((*rows, 1), MASKED, dtype="float32"),
            ops.zeros((*rows, 1), dtype="float32"),
            ops.zeros((*rows, width), dtype="float32"),
        )
        largest, total, mixed = ops.fori_loop(0, blocks.of_keys, of_keys, state)
        at = (0, 0, blocks.queries(query_number)[0], 0)
        outputs, sums = done
        mean = mixed / ops.maximum(total, _TINY)  # of no keys at all both are 0
        outputs = ops.slice_update(outputs, at, ops.cast(mean, values.dtype))
        return outputs, ops.slice_update(sums, at, ops.concatenate([largest, total], axis=-1))

    outputs = ops.zeros((batch, heads, blocks.length, width), dtype=values.dtype)
    sums = ops.zeros((batch, heads, blocks.length, 2), dtype="float32")
    return ops.fori_loop(0, blocks.of_queries, of_queries, (outputs, sums))


def _gradients(pairs: _Pairs, values, outputs, powers, upstream):
    """Returns the gradients of queries, keys, values and the score's variables."""
    blocks, inputs = pairs.blocks, (pairs.queries, pairs.keys, values, *pairs.variables)

    def of_queries(query_number, sums):
        start, _, new = blocks.queries(query_number)
        size = blocks.query_block
        some = _cut(pairs.queries, start, size)
        # Queries that the block before had already count nothing.
        of_outputs = ops.cast(_cut(upstream, start, size), "float32") * new
        own = ops.cast(_cut(outputs, start, size), "float32")
        shared = ops.sum(of_outputs * own, axis=-1, keepdims=True)
        largest, total = ops.split(_cut(powers, start, size), 2, axis=-1)

        def of_keys(key_number, sums):
            of_some, of_all_keys, of_all_values, *of_variables = sums
            start, _, new = blocks.keys(key_number)
            size = blocks.key_block
            logits, seen = pairs.masked(query_number, key_number)
            weights = ops.exp(logits - largest) / total * new[:, 0]
            block = ops.cast(_cut(values, start, size), "float32")
            of_weights = ops.matmul(of_outputs, ops.transpose(block, (0, 1, 3, 2)))
            of_logits = ops.where(seen, weights * (of_weights - shared), 0.0)
            of_values = ops.matmul(ops.transpose(weights, (0, 1, 3, 2)), of_outputs)
            keys = _cut(pairs.keys, start, size)
            of_logits = ops.cast(of_logits, keys.dtype)
            q, k, others = pairs.score.gradients(some, keys, pairs.variables, of_logits)
            return (
                of_some + ops.cast(q, "float32"),
                _add(of_all_keys, start, size, k),
                _add(of_all_values, start, size, of_values),
                *(a + ops.cast(b, "float32") for a, b in zip(of_variables, others, strict=True)),
            )

        of_all_queries, *others = sums
        state = (ops.zeros(ops.shape(some), dtype="float32"), *others)
        of_some, *others = ops.fori_loop(0, blocks.of_keys, of_keys, state)
        return _add(of_all_queries, start, size, of_some), *others

    state = tuple(ops.zeros(ops.shape(x), dtype="float32") for x in inputs)
    sums = ops.fori_loop(0, blocks.of_queries, of_queries, state)
    return tuple(ops.cast(total, x.dtype) for total, x in zip(sums, inputs, strict=True))


def _least(length, size: int):
    """Returns the smaller, 1 at least; a number where both are, as JAX wants sizes."""
    if isinstance(length, int):
        return max(min(length, size), 1)
    return ops.maximum(ops.minimum(length, size), 1)


def _cut(x, start, size):
    """Returns x (B, N, T, H) from `start`: (B, N, size, H)."""
    return ops.slice(x, (0, 0, start, 0), (ops.shape(x)[0], x.shape[1], size, x.shape[3]))


def _rows(segments, start, size):
    """Returns segments (B, T) from `start`: (B, size)."""
    return ops.slice(segments, (0, start), (ops.shape(segments)[0], size))


def _add(total, start, size, more):
    """Returns total (B, N, T, H) with `more` (B, N, size, H) added from `start`."""
    now = _cut(total, start, size) + ops.cast(more, total.dtype)
    return ops.slice_update(total, (0, 0, start, 0), now)


class InBlocks(WeightlessAttention):
    """Lets an Attention go through blockwise_attention; one step of decoding is as it was.

    Args:
        chunk_size: how many keys go together (hparam attention_chunk_size).
        the others: see WeightlessAttention.
    """

    def __init__(self, chunk_size: int, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.chunk_size = chunk_size

    def attend_sequence(self, queries, keys, values, mask, training=False):
        """Returns ((B, T, D), no weights)."""
        if kernels.PLAIN:
            outputs, _ = super().attend_sequence(queries, keys, values, mask, training)
            return outputs, ops.zeros(NO_WEIGHTS)
        mixed = blockwise_attention(
            queries, keys, values, mask, self.score, key_block=self.chunk_size
        )
        return self.join_heads(mixed, training), ops.zeros(NO_WEIGHTS)


class BlockwiseSelfAttention(InBlocks, SelfAttention):
    """Self-attention in blocks of keys: what SelfAttention computes, in little memory.

    It never holds the weights, and has no dropout of them.

    Args:
        chunk_size: how many keys go together (hparam attention_chunk_size).
        num_heads, key_channels, value_channels, kernel_initializer, score: see SelfAttention.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import BlockwiseSelfAttention
    >>> layer = BlockwiseSelfAttention(chunk_size=4, num_heads=2)
    >>> y, no_weights = layer(keras.Input((11, 8)), use_causal_mask=True)
    >>> y.shape
    (None, 11, 8)
    """


class BlockwiseCrossAttention(InBlocks, CrossAttention):
    """Attention to the encoder's output in blocks of keys, as CrossAttention computes it.

    Args:
        chunk_size, num_heads, key_channels, value_channels, kernel_initializer, score: see
            BlockwiseSelfAttention.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import BlockwiseCrossAttention
    >>> layer = BlockwiseCrossAttention(chunk_size=4, num_heads=2)
    >>> y, no_weights = layer(keras.Input((5, 8)), keras.Input((11, 8)))
    >>> y.shape
    (None, 5, 8)
    """
