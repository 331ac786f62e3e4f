"""Attention in blocks: the result of softmax(Q K^T) V without ever holding its weights.

Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory" (https://arxiv.org/abs/2112.05682).
The keys are gone through block by block, keeping for each query the largest logit so far, the sum
of exponentials and the weighted sum of values; both sums shrink when a larger logit comes.
"""

import math

from keras import ops

from t2t_repro.layers.attention import MASKED

QUERY_BLOCK = 256


def blockwise_attention(
    queries,
    keys,
    values,
    key_mask=None,
    causal: bool = False,
    query_block: int = QUERY_BLOCK,
    key_block: int | None = None,
):
    """Attends as Attention.attend does before its output kernel, but returns no weights.

    Beside inputs and outputs it holds `query_block` times `key_block` logits a head: with the
    default, in the order of sqrt(S). That is so forwards; a gradient would keep every block.

    Args:
        queries: (B, N, T, H), scaled; T and S must be known when this is traced.
        keys: (B, N, S, H).
        values: (B, N, S, H').
        key_mask: bool (B, S), True where queries may look; None: everywhere.
        causal: each query looks at its own position and before only; T is S.
        query_block: how many queries go together.
        key_block: how many keys; None: the square root of S, rounded up.

    Returns:
        (B, N, T, H'), of the values' dtype. Sums are float32.
    """
    length, source = queries.shape[2], keys.shape[2]
    query_block = min(query_block, length)
    key_block = min(key_block or math.isqrt(source - 1) + 1, source)
    batch, heads, value_size = ops.shape(queries)[0], queries.shape[1], values.shape[3]
    sums = (batch, heads, query_block)

    def cut(x, start, count):
        shape = (batch, heads, count, x.shape[3])
        return ops.slice(x, (0, 0, start, 0), shape)

    def of_queries(block, outputs):
        # The last block begins early enough to be whole: some queries are done twice, alike.
        start = ops.minimum(block * query_block, length - query_block)
        some = cut(queries, start, query_block)
        query_positions = start + ops.arange(query_block, dtype="int32")

        def of_keys(key, state):
            largest, total, mixed = state
            first = key * key_block
            start = ops.minimum(first, source - key_block)
            positions = start + ops.arange(key_block, dtype="int32")
            logits = ops.matmul(some, ops.transpose(cut(keys, start, key_block), (0, 1, 3, 2)))
            logits = ops.cast(logits, "float32")
            if key_mask is not None:
                seen = ops.slice(key_mask, (0, start), (batch, key_block))[:, None, None]
                logits = ops.where(seen, logits, MASKED)
            if causal:
                seen = positions[None, :] <= query_positions[:, None]
                logits = ops.where(seen, logits, MASKED)
            now = ops.maximum(largest, ops.max(logits, axis=-1, keepdims=True))
            # Keys that the block before had already count nothing.
            powers = ops.exp(logits - now) * ops.cast(positions >= first, "float32")
            shrink = ops.exp(largest - now)
            of_values = ops.cast(cut(values, start, key_block), "float32")
            total = total * shrink + ops.sum(powers, axis=-1, keepdims=True)
            return now, total, mixed * shrink + ops.matmul(powers, of_values)

        state = (
            ops.full((*sums, 1), MASKED, dtype="float32"),
            ops.zeros((*sums, 1), dtype="float32"),
            ops.zeros((*sums, value_size), dtype="float32"),
        )
        _, total, mixed = ops.fori_loop(0, -(-source // key_block), of_keys, state)
        done = ops.cast(mixed / total, values.dtype)
        return ops.slice_update(outputs, (0, 0, start, 0), done)

    outputs = ops.zeros((batch, heads, length, value_size), dtype=values.dtype)
    return ops.fori_loop(0, -(-length // query_block), of_queries, outputs)
