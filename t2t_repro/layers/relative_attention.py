"""Self-attention with relative positions (Shaw et al. 2018)."""

from keras import ops

from t2t_repro.layers.attention import SelfAttention
from t2t_repro.layers.layer import cloned


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
        relative = ops.einsum("bnth,tsh->bnts", queries, of_keys)
        return super().logits(queries, keys) + relative

    def mix(self, weights, values, distance=None):
        of_values = self._at(self.relative_positions_values, weights, values, distance)
        return super().mix(weights, values) + ops.einsum("bnts,tsh->bnth", weights, of_values)

    def _at(self, table, queries, keys, distance):
        """Returns the rows (T, S, H) of a table of relative positions."""
        if distance is None:
            source = ops.arange(ops.shape(keys)[2])
            distance = source[None, :] - ops.arange(ops.shape(queries)[2])[:, None]
        limit = self.max_relative_position
        rows = ops.clip(distance, -limit, limit) + limit
        return ops.cast(ops.take(table, rows, axis=0), keys.dtype)
