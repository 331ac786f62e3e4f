"""The paper's layers for a model of one's own: plain arguments, boolean and implicit masks."""

from keras import ops

from t2t_repro.layers.attention import CrossAttention, SelfAttention
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer import Layer
from t2t_repro.layers.mask import CAUSAL, EVERYWHERE, CausalMask, Mask, of_padding
from t2t_repro.layers.prepostprocess import PrePostProcess
from t2t_repro.layers.stacks import DecoderLayer, EncoderLayer, Sublayer


class _Block(Layer):
    """What the two blocks share.

    Args:
        num_heads: N.
        filter_size: F, the inner width of the feed-forward sublayer.
        preprocess: what happens to each sublayer's inputs, letters of "adn" or "none".
        postprocess: what happens to its outputs. Pre-norm is "n" and "da", post-norm, as the paper
            has it, "none" and "dan".
        dropout: rate of "d".
        attention_dropout: rate on the weights.
        relu_dropout: rate inside the feed-forward sublayer.
    """

    def __init__(
        self,
        num_heads: int,
        filter_size: int,
        preprocess: str = "n",
        postprocess: str = "da",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        relu_dropout: float = 0.0,
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

    def sublayer(self, layer: Layer, name: str) -> Sublayer:
        """Returns the layer with what happens before and after it."""
        policy = self.dtype_policy
        before = PrePostProcess(self.preprocess, name="layer_prepostprocess", dtype=policy)
        after = PrePostProcess(
            self.postprocess, dropout=self.dropout, name="layer_postprocess", dtype=policy
        )
        return Sublayer(layer, before, after, name=name, dtype=policy)

    def attention(self, kind: type, depth: int, name: str) -> Sublayer:
        """Returns attention of all heads to vectors of this size."""
        layer = kind(
            *(self.num_heads, depth, depth),
            dropout=self.attention_dropout,
            name="multihead_attention",
            dtype=self.dtype_policy,
        )
        return self.sublayer(layer, name)

    def ffn(self) -> Sublayer:
        """Returns the feed-forward sublayer."""
        policy = self.dtype_policy
        layer = FeedForward(self.filter_size, self.relu_dropout, name="feed_forward", dtype=policy)
        return self.sublayer(layer, "ffn")


class TransformerEncoder(_Block):
    """One layer of the encoder: self-attention, then feed-forward (paper, section 3.1).

    It has the variables of the model's `EncoderLayer`, and computes the same.

    Args:
        num_heads, filter_size, preprocess, postprocess, dropout, attention_dropout, relu_dropout:
            see `_Block`.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import TransformerEncoder
    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(100, 16, mask_zero=True)(ids)
    >>> for _ in range(2):
    ...     x = TransformerEncoder(num_heads=4, filter_size=32, dropout=0.1)(x)
    >>> x = keras.layers.GlobalAveragePooling1D()(x)
    >>> keras.Model(ids, keras.layers.Dense(3)(x)).output_shape
    (None, 3)
    """

    def build(self, input_shape):
        own = self.attention(SelfAttention, input_shape[-1], "self_attention")
        self.layer = EncoderLayer(own, self.ffn(), name="layer", dtype=self.dtype_policy)
        self.layer.build(input_shape)

    def call(self, x, mask=None, use_causal_mask=False, training=False):
        """Maps (B, S, D) to (B, S, D).

        Args:
            x: (B, S, D).
            mask: bool (B, S), True at tokens: nobody looks at the others. None: that of Keras, such
                as mask_zero makes it, if there is one.
            use_causal_mask: whether nobody looks ahead.
            training: whether dropout is on.
        """
        seen: Mask = CAUSAL if use_causal_mask else EVERYWHERE
        if mask is not None:
            seen = type(seen)(keys=ops.cast(mask, "int32"))
        return self.layer(x, attention_mask=seen, training=training)[0]


class TransformerDecoder(_Block):
    """One layer of the decoder: it looks back at itself, then at the encoder's output.

    It has the variables of the model's `DecoderLayer`, and computes the same.

    Args:
        num_heads, filter_size, preprocess, postprocess, dropout, attention_dropout, relu_dropout:
            see `_Block`.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import TransformerDecoder
    >>> memory, x = keras.Input((7, 16)), keras.Input((5, 16))
    >>> post_norm = {"preprocess": "none", "postprocess": "dan"}
    >>> TransformerDecoder(num_heads=4, filter_size=32, **post_norm)(x, memory).shape
    (None, 5, 16)
    """

    def build(self, x_shape, memory_shape=None):
        depth = x_shape[-1]
        sublayers = (
            self.attention(SelfAttention, depth, "self_attention"),
            self.attention(CrossAttention, depth, "encdec_attention"),
            self.ffn(),
        )
        self.layer = DecoderLayer(*sublayers, name="layer", dtype=self.dtype_policy)
        self.layer.build(x_shape)

    def call(self, x, memory, x_mask=None, memory_mask=None, training=False):
        """Maps (B, T, D) to (B, T, D).

        Args:
            x: (B, T, D); each position sees itself and those before it.
            memory: (B, S, D), the encoder's output.
            x_mask: bool (B, T), True at tokens; None: that of Keras, if there is one.
            memory_mask: bool (B, S), likewise.
            training: whether dropout is on.
        """
        own = CAUSAL if x_mask is None else CausalMask(keys=ops.cast(x_mask, "int32"))
        other = EVERYWHERE if memory_mask is None else of_padding(memory_mask)
        masks = {"attention_mask": own, "memory_mask": other}
        return self.layer(x, memory=memory, **masks, training=training)[0]
