"""Attention as Keras calls it, for a model of one's own."""

from t2t_repro.layers.attention import CrossAttention, joined
from t2t_repro.layers.layer import Layer


class MultiHeadAttention(Layer):
    """MultiHead(Q, K, V) (paper, section 3.2.2), with the arguments of Keras's layer of this name.

    Unlike Keras's it has no biases, as T2T's, and makes keys and values of one sequence. It returns
    the outputs alone; SelfAttention and CrossAttention return the weights too.

    Args:
        num_heads: N.
        key_dim: H of queries and keys; None: D / N.
        value_dim: H of values; None: key_dim.
        dropout: rate on the weights.
        kernel_initializer: of each of T2T's kernels.
        score: "scaled_dot_product", "dot_product", "multiplicative" or "additive".

    Example:

    >>> import keras
    >>> from t2t_repro.layers import MultiHeadAttention
    >>> query, value = keras.Input((5, 16)), keras.Input((7, 16))
    >>> MultiHeadAttention(num_heads=4, key_dim=8)(query, value).shape
    (None, 5, 16)
    >>> MultiHeadAttention(num_heads=4)(query, use_causal_mask=True).shape
    (None, 5, 16)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        kernel_initializer="glorot_uniform",
        score="scaled_dot_product",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.attention = CrossAttention(
            num_heads,
            key_dim and key_dim * num_heads,
            self.value_dim and self.value_dim * num_heads,
            dropout=dropout,
            kernel_initializer=kernel_initializer,
            score=score,
            name="attention",
            dtype=self.dtype_policy,
        )
        self.kernel_initializer = self.attention.kernel_initializer
        self.score = self.attention.score

    def build(self, query_shape, value_shape=None):
        self.attention.build(query_shape, value_shape)

    def call(
        self,
        query,
        value=None,
        *,  # third Keras has `key`
        query_mask=None,
        value_mask=None,
        attention_mask=None,
        use_causal_mask=False,
        mask=None,
        training=False,
    ):
        """Maps (B, T, D) to (B, T, D).

        A query sees what all masks let it see.

        Args:
            query: (B, T, D).
            value: (B, S, D); None: the query.
            query_mask: bool (B, T), True at tokens; counts where the value is the query.
            value_mask: bool (B, S), True at tokens; None: that of Keras, if there is one.
            attention_mask: bool (B, T, S) or (B, N, T, S), True where a query may look at a key.
            use_causal_mask: whether nobody looks ahead.
            mask: `query_mask`, where Keras gives that of a query alone.
            training: whether dropout is on.
        """
        if value is None:
            own = query_mask if mask is None else mask
            value, value_mask = query, own if value_mask is None else value_mask
        seen = joined(attention_mask, value_mask, use_causal_mask)
        return self.attention(query, memory=value, attention_mask=seen, training=training)[0]
