"""Which keys a query may look at."""

from typing import Any, NamedTuple

from keras import ops

from t2t_repro.errors import UserError


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
