"""Self-attention restricted to a neighbourhood (paper, section 4): its cost is that of n blocks."""

from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.layers.attention import NO_WEIGHTS, Mask, SelfAttention, WeightlessAttention


class LocalSelfAttention(WeightlessAttention, SelfAttention):
    """Positions in blocks; each looks at its own block and at some before it.

    As T2T's layers/common_attention.py. Masked, masked_local_attention_1d (self_attention_type
    local_mask_right): its own block up to itself, and the block before. Not masked,
    local_attention_1d (local_unmasked) with a filter as wide as a block, as its Transformer calls
    it: its own block wholly and the two before. (T2T's words promise the blocks to the left and to
    the right, but where the filter is a multiple of the block its slices begin one block early.)

    T2T leaves out the dropout of weights here, and so is it here.

    Args:
        block_length: of a block; T2T's Transformer always takes 128.
        masked: nobody looks ahead.
        num_heads, key_channels, value_channels, kernel_initializer, score: see SelfAttention.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import LocalSelfAttention
    >>> layer = LocalSelfAttention(block_length=4, masked=True, num_heads=2)
    >>> y, no_weights = layer(keras.Input((11, 8)))
    >>> y.shape
    (None, 11, 8)
    """

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
                "Expected masks of a sequence: attention to a neighbourhood never has all pairs. "
                "Received: attention_mask. Give `mask`, bool (B, T), or take SelfAttention."
            )
        # Not the keys' own: of no sentences without tokens TensorFlow's reshape makes one.
        batch = ops.shape(keys if mask.keys is None else mask.keys)[0]
        length = ops.shape(keys)[2]
        cut = _Cut(length, self.block_length, before=1 if self.masked else 2)
        query_positions, key_positions = cut.positions()
        # (blocks, t, s)
        seen = (key_positions >= 0) & (key_positions < length)
        seen = ops.broadcast_to(seen[:, None], (cut.blocks, cut.size, cut.seen))
        if self.masked or mask.causal:
            seen = seen & (key_positions[:, None, :] <= query_positions[:, :, None])
        seen = seen[None, :, None]
        if mask.keys is not None:
            of_keys = cut.keys(mask.keys[:, None, :, None])[..., 0, :, 0]  # (B, blocks, s)
            own = of_keys[:, :, None, None, :] != 0
            if mask.queries is not None:
                of_queries = cut.queries(mask.queries[:, None, :, None])[..., 0, :, 0]
                own = of_queries[:, :, None, :, None] == of_keys[:, :, None, None, :]
            seen = seen & own
        seen = ops.broadcast_to(seen, (batch, cut.blocks, 1, cut.size, cut.seen))
        q, k, v = (cut.queries(queries), cut.keys(keys), cut.keys(values))
        # (B, blocks, N, ...) -> (B * blocks, N, ...)
        q, k, v, seen = (ops.reshape(x, (-1, *ops.shape(x)[2:])) for x in (q, k, v, seen))
        weights = self.softmax(self.logits(q, k), seen)
        mixed = self.apply_weights(ops.cast(weights, v.dtype), v)
        # (B * blocks, N, size, H') -> (B, N, blocks, size, H')
        width = values.shape[3]
        mixed = ops.reshape(mixed, (batch, cut.blocks, self.num_heads, cut.size, width))
        mixed = ops.transpose(mixed, (0, 2, 1, 3, 4))
        mixed = ops.reshape(mixed, (batch, self.num_heads, cut.blocks * cut.size, width))
        return self.join_heads(mixed[:, :, :length], training), ops.zeros(NO_WEIGHTS)

    def step(self, x, cache, step, mask):
        """Decodes one position, as SelfAttention.step, which is masked in any case."""
        positions = ops.arange(ops.shape(mask)[3], dtype="int32") // ops.shape(x)[1]
        first = (step // self.block_length - 1) * self.block_length
        return super().step(x, cache, step, mask & (positions >= first))


class _Cut:
    """A sequence in blocks, and what the queries of each may see; lengths may be unknown yet.

    Attributes:
        blocks: how many there are.
        size: of a block.
        before: how many blocks before its own a query sees.
        seen: keys that a block of queries sees.
    """

    def __init__(self, length, block_length: int, before: int):
        known = isinstance(length, int)
        self.length = length
        # Nothing is one block, of padding.
        least, most = (min, max) if known else (ops.minimum, ops.maximum)
        self.size = most(least(length, block_length), 1)
        self.blocks = most(-(-length // self.size), 1)
        others = self.blocks - 1
        self.before = least(others, before)
        self.seen = (self.before + 1) * self.size

    def positions(self):
        """Returns int32 (blocks, size) of queries and (blocks, seen) of keys, which may be < 0."""
        starts = (ops.arange(self.blocks, dtype="int32") * self.size)[:, None]
        own = ops.arange(self.size, dtype="int32")
        return starts + own, starts - self.before * self.size + ops.arange(self.seen, dtype="int32")

    def queries(self, x):
        """(B, N, T, H) -> (B, blocks, N, size, H), with zeros behind."""
        return ops.transpose(self._blocks(x, 0), (0, 2, 1, 3, 4))

    def keys(self, x):
        """(B, N, S, H) -> (B, blocks, N, seen, H), with zeros before and behind."""
        x = self._blocks(x, self.before)
        own = ops.arange(self.blocks, dtype="int32")[:, None]
        x = ops.take(x, own + ops.arange(self.before + 1, dtype="int32"), axis=2)
        # (B, N, blocks, before + 1, size, H) -> (B, N, blocks, seen, H)
        shape = ops.shape(x)
        x = ops.reshape(x, (*shape[:3], self.seen, shape[5]))
        return ops.transpose(x, (0, 2, 1, 3, 4))

    def _blocks(self, x, before):
        """(B, N, T, H) -> (B, N, before + blocks, size, H)."""
        batch, heads, _, width = ops.shape(x)

        def zeros(count):
            return ops.zeros((batch, heads, count, width), dtype=x.dtype)

        behind = self.blocks * self.size - self.length
        x = ops.concatenate([zeros(before * self.size), x, zeros(behind)], axis=2)
        return ops.reshape(x, (batch, heads, before + self.blocks, self.size, width))
