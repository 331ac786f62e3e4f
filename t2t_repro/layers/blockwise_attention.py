"""Attention in blocks: the result of softmax(Q K^T) V without ever holding its weights.

Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory" (https://arxiv.org/abs/2112.05682).
The keys are gone through block by block, keeping for each query the largest logit so far, the sum
of exponentials and the weighted sum of values; both sums shrink when a larger logit comes. The
gradient computes the logits again, block by block, from each query's sum.
"""

from keras import ops

from t2t_repro.layers.layer import larger, smaller

QUERY_BLOCK = 256
MASKED = -1e9  # the logit of what must not be looked at; T2T adds it, which comes to the same
_TINY = 1e-30


def blockwise_attention(
    queries, keys, values, mask, score, key_block: int, query_block: int = QUERY_BLOCK
):
    """Attends as Attention.attend does before its output kernel, but returns no weights.

    Beside inputs and outputs it holds `query_block` times `key_block` logits a head. Its gradient
    holds as much, and a gradient for each input.

    Args:
        queries: (B, N, T, H), as the score made them.
        keys: (B, N, S, H), as the score made them.
        values: (B, N, S, H').
        mask: an attention.Mask.
        score: an attention.AttentionScore, which computes the logits.
        key_block: the keys in a block.
        query_block: the queries in a block.

    Returns:
        (B, N, T, H'), of the values' dtype. Sums are float32.
    """

    @ops.custom_gradient
    def attend(queries, keys, values, *variables):
        pairs = _Pairs((queries, keys, list(variables)), mask, score, query_block, key_block)
        outputs, sums = _outputs(pairs, values)
        return outputs, lambda upstream: _gradients(pairs, values, outputs, sums, upstream)

    variables = score.score_weights()
    return attend(*(ops.convert_to_tensor(x) for x in (queries, keys, values)), *variables)


class _Pairs:
    """Blocks of queries and of keys, and their logits; sizes may be known only when it runs."""

    def __init__(self, inputs, mask, score, query_block: int, key_block: int):
        self.queries, self.keys, self.variables = inputs
        self.mask, self.score = mask, score
        self.length, self.source = ops.shape(self.queries)[2], ops.shape(self.keys)[2]
        self.query_block = larger(smaller(self.length, query_block), 1)
        self.key_block = larger(smaller(self.source, key_block), 1)
        self.of_queries = -(-self.length // self.query_block)
        self.of_keys = -(-self.source // self.key_block)

    def block_of_queries(self, number):
        """Returns (start, int32 positions, float32 (T, 1): 1 where no block before had it)."""
        return self._at(number, self.query_block, self.length)

    def block_of_keys(self, number):
        """Returns the same of a block of keys."""
        return self._at(number, self.key_block, self.source)

    def _at(self, number, size, length):
        # The last block begins early enough to be whole: some positions are in two blocks, and
        # count once.
        start = ops.minimum(number * size, length - size)
        positions = start + ops.arange(size, dtype="int32")
        return start, positions, ops.cast(positions >= number * size, "float32")[:, None]

    def masked(self, query_number, key_number):
        """Returns (logits float32 (B, N, t, s), bool: True where the query may look)."""
        query_start, query_positions, _ = self.block_of_queries(query_number)
        key_start, key_positions, _ = self.block_of_keys(key_number)
        queries = _cut(self.queries, query_start, self.query_block)
        keys = _cut(self.keys, key_start, self.key_block)
        logits = self.score.scores(queries, keys, self.variables)
        segments = (
            x if x is None else ops.slice(x, (0, start), (ops.shape(x)[0], size))
            for x, start, size in (
                (self.mask.queries, query_start, self.query_block),
                (self.mask.keys, key_start, self.key_block),
            )
        )
        seen = self.mask.at(query_positions, key_positions, *segments)
        return ops.where(seen, ops.cast(logits, "float32"), MASKED), seen


def _outputs(pairs: _Pairs, values):
    """Returns the outputs (B, N, T, H'), and of each query its largest logit and the sum of the
    powers, e to what is less than that (B, N, T, 2).

    The two stay apart: where nothing may be looked at, the first is too large to hold the other's
    logarithm in float32.
    """
    batch, heads, width = ops.shape(values)[0], values.shape[1], values.shape[3]
    rows = (batch, heads, pairs.query_block)

    def of_queries(query_number, done):
        def of_keys(key_number, state):
            largest, total, mixed = state
            start, _, new = pairs.block_of_keys(key_number)
            logits, _ = pairs.masked(query_number, key_number)
            now = ops.maximum(largest, ops.max(logits, axis=-1, keepdims=True))
            powers = ops.exp(logits - now) * new[:, 0]
            shrink = ops.exp(largest - now)
            of_values = ops.cast(_cut(values, start, pairs.key_block), "float32")
            total = total * shrink + ops.sum(powers, axis=-1, keepdims=True)
            return now, total, mixed * shrink + ops.matmul(powers, of_values)

        state = (
            ops.full((*rows, 1), MASKED, dtype="float32"),
            ops.zeros((*rows, 1), dtype="float32"),
            ops.zeros((*rows, width), dtype="float32"),
        )
        largest, total, mixed = ops.fori_loop(0, pairs.of_keys, of_keys, state)
        at = (0, 0, pairs.block_of_queries(query_number)[0], 0)
        outputs, sums = done
        mean = mixed / ops.maximum(total, _TINY)  # of no keys at all both are 0
        outputs = ops.slice_update(outputs, at, ops.cast(mean, values.dtype))
        return outputs, ops.slice_update(sums, at, ops.concatenate([largest, total], axis=-1))

    outputs = ops.zeros((batch, heads, pairs.length, width), dtype=values.dtype)
    sums = ops.zeros((batch, heads, pairs.length, 2), dtype="float32")
    return ops.fori_loop(0, pairs.of_queries, of_queries, (outputs, sums))


def _gradients(pairs: _Pairs, values, outputs, powers, upstream):
    """Returns the gradients of queries, keys, values and the score's variables."""
    inputs = (pairs.queries, pairs.keys, values, *pairs.variables)

    def of_queries(query_number, sums):
        start, _, new = pairs.block_of_queries(query_number)
        size = pairs.query_block
        some = _cut(pairs.queries, start, size)
        # Queries that the block before had count nothing.
        of_outputs = ops.cast(_cut(upstream, start, size), "float32") * new
        own = ops.cast(_cut(outputs, start, size), "float32")
        shared = ops.sum(of_outputs * own, axis=-1, keepdims=True)
        largest, total = ops.split(_cut(powers, start, size), 2, axis=-1)

        def of_keys(key_number, sums):
            of_some, of_all_keys, of_all_values, *of_variables = sums
            start, _, new = pairs.block_of_keys(key_number)
            size = pairs.key_block
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
        of_some, *others = ops.fori_loop(0, pairs.of_keys, of_keys, state)
        return _add(of_all_queries, start, size, of_some), *others

    state = tuple(ops.zeros(ops.shape(x), dtype="float32") for x in inputs)
    sums = ops.fori_loop(0, pairs.of_queries, of_queries, state)
    return tuple(ops.cast(total, x.dtype) for total, x in zip(sums, inputs, strict=True))


def _cut(x, start, size):
    """Returns x (B, N, T, H) from `start`: (B, N, size, H)."""
    return ops.slice(x, (0, 0, start, 0), (ops.shape(x)[0], x.shape[1], size, x.shape[3]))


def _add(total, start, size, more):
    """Returns total (B, N, T, H) with `more` (B, N, size, H) added from `start`."""
    now = _cut(total, start, size) + ops.cast(more, total.dtype)
    return ops.slice_update(total, (0, 0, start, 0), now)
