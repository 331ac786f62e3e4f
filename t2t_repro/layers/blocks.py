"""The paper's layers for your own model: plain arguments, boolean and implicit masks."""

from keras import activations, initializers

from t2t_repro.layers.attention import CrossAttention, SelfAttention, joined
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer import Layer, cloned
from t2t_repro.layers.prepostprocess import PrePostProcess
from t2t_repro.layers.stacks import DecoderSublayers, EncoderSublayers, Sublayer


class Block(Layer):
    """What the two layers share: arguments, which EncoderLayer describes, and their sublayers."""

    def __init__(
        self,
        num_heads: int,
        filter_size: int,
        preprocess: str = "n",
        postprocess: str = "da",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        relu_dropout: float = 0.0,
        norm_type: str = "layer",
        norm_epsilon: float = 1e-6,
        kernel_initializer="glorot_uniform",
        activation="relu",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.filter_size = filter_size
        self.preprocess = preprocess
        self.postprocess = postprocess
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.relu_dropout = relu_dropout
        self.norm_type = norm_type
        self.norm_epsilon = norm_epsilon
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.activation = activations.get(activation)

    def sublayer(self, layer: Layer, name: str) -> Sublayer:
        """Returns the layer with what happens before and after it."""
        shared = {
            "norm_type": self.norm_type,
            "norm_epsilon": self.norm_epsilon,
            "dropout": self.dropout,
            "dtype": self.dtype_policy,
        }
        before = PrePostProcess(self.preprocess, name="layer_prepostprocess", **shared)
        after = PrePostProcess(self.postprocess, name="layer_postprocess", **shared)
        return Sublayer(layer, before, after, name=name, dtype=self.dtype_policy)

    def attention(self, kind: type, depth: int, name: str) -> Sublayer:
        """Returns attention of all heads to vectors of this size."""
        layer = kind(
            *(self.num_heads, depth, depth),
            dropout=self.attention_dropout,
            kernel_initializer=cloned(self.kernel_initializer),
            name="multihead_attention",
            dtype=self.dtype_policy,
        )
        return self.sublayer(layer, name)

    def ffn(self) -> Sublayer:
        """Returns the feed-forward sublayer."""
        layer = FeedForward(
            self.filter_size,
            self.relu_dropout,
            kernel_initializer=cloned(self.kernel_initializer),
            activation=self.activation,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        return self.sublayer(layer, "ffn")


class EncoderLayer(Block):
    """One layer of the encoder: self-attention, then feed-forward (paper, section 3.1).

    Variables and outputs are those of a layer of `Transformer`. With `use_causal_mask` it is a
    layer of a language model.

    Args:
        num_heads: N.
        filter_size: F, the inner width of the feed-forward sublayer.
        preprocess: what happens to each sublayer's inputs, letters of "dn", or "none".
        postprocess: what happens to its outputs, letters of "adnz", or "none". Pre-norm is "n" and
            "da", post-norm, as the paper has it, "none" and "dan".
        dropout: rate of "d".
        attention_dropout: rate on the weights.
        relu_dropout: rate inside the feed-forward sublayer.
        norm_type: what "n" does: a name of NORMS (layers/norms.py).
        norm_epsilon: what "n" adds to the variance.
        kernel_initializer: of each kernel.
        activation: inside the feed-forward sublayer; of Keras, by name or as a function.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import EncoderLayer
    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(100, 16, mask_zero=True)(ids)
    >>> x = EncoderLayer(num_heads=4, filter_size=32, dropout=0.1)(x)
    >>> x = keras.layers.GlobalAveragePooling1D()(x)
    >>> keras.Model(ids, keras.layers.Dense(3)(x)).output_shape
    (None, 3)
    """

    def build(self, input_shape):
        own = self.attention(SelfAttention, input_shape[-1], "self_attention")
        self.layer = EncoderSublayers(own, self.ffn(), name="layer", dtype=self.dtype_policy)
        self.layer.build(input_shape)

    def call(
        self,
        x,
        mask=None,
        attention_mask=None,
        use_causal_mask=False,
        x_mask=None,
        training=False,
    ):
        """Maps (B, S, D) to (B, S, D).

        Args:
            x: (B, S, D).
            mask: bool (B, S), True at tokens; the others are not attended to. None: that of Keras,
                such as mask_zero makes it, if there is one.
            attention_mask: bool (B, S, S) or (B, N, S, S), True where a position may look.
            use_causal_mask: whether attention is causal.
            x_mask: `mask`, as Keras names it beside an attention_mask.
            training: whether dropout is on.
        """
        seen = joined(attention_mask, x_mask if mask is None else mask, use_causal_mask)
        return self.layer(x, attention_mask=seen, training=training)[0]

    def attention_weights(self, x, mask=None, attention_mask=None, use_causal_mask=False) -> dict:
        """Returns {"self_attention": float32 (B, N, S, S)} of a built layer.

        Args:
            x, mask, attention_mask, use_causal_mask: as `call`'s; Keras's implicit mask is not
                used.
        """
        seen = joined(attention_mask, mask, use_causal_mask)
        return self.layer(x, attention_mask=seen)[1]


class DecoderLayer(Block):
    """One layer of the decoder: it looks back at itself, then at the encoder's output.

    Variables and outputs are those of a layer of `Transformer`.

    Args:
        num_heads, filter_size, preprocess, postprocess, dropout, attention_dropout, relu_dropout,
            norm_type, norm_epsilon, kernel_initializer, activation: see EncoderLayer. "group" lets
            a position see those ahead of it.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import DecoderLayer
    >>> memory, x = keras.Input((7, 16)), keras.Input((5, 16))
    >>> post_norm = {"preprocess": "none", "postprocess": "dan"}
    >>> DecoderLayer(num_heads=4, filter_size=32, **post_norm)(x, memory).shape
    (None, 5, 16)
    """

    def build(self, x_shape, memory_shape=None):
        own = self.attention(SelfAttention, x_shape[-1], "self_attention")
        cross = self.attention(CrossAttention, x_shape[-1], "encdec_attention")
        policy = self.dtype_policy
        self.layer = DecoderSublayers(own, cross, self.ffn(), name="layer", dtype=policy)
        self.layer.build(x_shape, memory_shape)

    def call(
        self,
        x,
        memory,
        x_mask=None,
        memory_mask=None,
        attention_mask=None,
        use_causal_mask=True,
        training=False,
    ):
        """Maps (B, T, D) to (B, T, D).

        Args:
            x: (B, T, D).
            memory: (B, S, D), the encoder's output; its width may differ from D.
            x_mask: bool (B, T), True at tokens; None: that of Keras, if there is one.
            memory_mask: bool (B, S), likewise.
            attention_mask: bool (B, T, T) or (B, N, T, T), True where a position may look at one of
                its own sequence.
            use_causal_mask: whether attention is causal.
            training: whether dropout is on.
        """
        masks = self._masks(x_mask, memory_mask, attention_mask, use_causal_mask)
        return self.layer(x, memory=memory, **masks, training=training)[0]

    def attention_weights(
        self,
        x,
        memory,
        x_mask=None,
        memory_mask=None,
        attention_mask=None,
        use_causal_mask=True,
    ) -> dict:
        """Returns the weights of a built layer.

        Args:
            x, memory, x_mask, memory_mask, attention_mask, use_causal_mask: as `call`'s; Keras's
                implicit masks are not used.

        Returns:
            {"self_attention": float32 (B, N, T, T), "encdec_attention": float32 (B, N, T, S)}.
        """
        masks = self._masks(x_mask, memory_mask, attention_mask, use_causal_mask)
        return self.layer(x, memory=memory, **masks)[1]

    def _masks(self, x_mask, memory_mask, attention_mask, use_causal_mask) -> dict:
        own = joined(attention_mask, x_mask, use_causal_mask)
        return {"attention_mask": own, "memory_mask": joined(padding=memory_mask)}


class MultiHeadAttention(Layer):
    """MultiHead(Q, K, V) (paper, section 3.2.2), with the arguments of Keras's layer of this name.

    Unlike Keras's it has no biases, as T2T's, and computes keys and values from one sequence. It
    returns only the outputs; SelfAttention and CrossAttention return the weights too.

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

        All masks apply together.

        Args:
            query: (B, T, D).
            value: (B, S, D); None: the query.
            query_mask: bool (B, T), True at tokens; counts where the value is the query.
            value_mask: bool (B, S), True at tokens; None: that of Keras, if there is one.
            attention_mask: bool (B, T, S) or (B, N, T, S), True where a query may look at a key.
            use_causal_mask: whether attention is causal.
            mask: `query_mask`, as Keras names it for a query alone.
            training: whether dropout is on.
        """
        if value is None:
            own = query_mask if mask is None else mask
            value, value_mask = query, own if value_mask is None else value_mask
        seen = joined(attention_mask, value_mask, use_causal_mask)
        return self.attention(query, memory=value, attention_mask=seen, training=training)[0]
