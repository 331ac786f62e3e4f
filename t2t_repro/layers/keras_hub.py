"""KerasHub's layers of a Transformer: its names and arguments, computed by this package's."""

from t2t_repro.errors import UserError
from t2t_repro.layers.blocks import Block
from t2t_repro.layers.layer import build_all, check_sizes
from t2t_repro.layers.mask import joined


class HubBlock(Block):
    """What the two layers share; TransformerEncoder describes the arguments."""

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        activation="relu",
        layer_norm_epsilon: float = 1e-5,
        kernel_initializer="glorot_uniform",
        normalize_first: bool = False,
        **kwargs,
    ):
        check_sizes(intermediate_dim=intermediate_dim)
        super().__init__(
            num_heads,
            intermediate_dim,
            *(("n", "da") if normalize_first else ("none", "dan")),
            dropout=dropout,
            attention_dropout=dropout,
            norm_epsilon=layer_norm_epsilon,
            kernel_initializer=kernel_initializer,
            activation=activation,
            **kwargs,
        )
        self.intermediate_dim = intermediate_dim
        self.layer_norm_epsilon = layer_norm_epsilon
        self.normalize_first = normalize_first


class TransformerEncoder(HubBlock):
    """EncoderLayer with the arguments of keras_hub.layers.TransformerEncoder.

    Unlike KerasHub's its attention has no biases.

    Args:
        intermediate_dim: F, the inner width of the feed-forward sublayer.
        num_heads: N.
        dropout: rate behind each sublayer, and on attention's weights.
        activation: inside the feed-forward sublayer.
        layer_norm_epsilon: added to the variance.
        kernel_initializer: of each kernel.
        normalize_first: whether the norm comes before each sublayer (pre-norm), not after its sum.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import TransformerEncoder
    >>> x = keras.Input((None, 16))
    >>> TransformerEncoder(intermediate_dim=32, num_heads=4, normalize_first=True)(x).shape
    (None, None, 16)
    """

    def build(self, inputs_shape):
        self.layer = self.encoder(inputs_shape[-1])
        self.layer.build(inputs_shape)

    def call(
        self,
        inputs,
        padding_mask=None,
        attention_mask=None,
        training=False,
        mask=None,
        inputs_mask=None,
    ):
        """Maps (B, S, D) to (B, S, D).

        Args:
            inputs: (B, S, D).
            padding_mask: bool (B, S), True at tokens; None: that of Keras, if there is one.
            attention_mask: bool (B, S, S) or (B, N, S, S), True where a position may look.
            training: whether dropout is on.
            mask, inputs_mask: where Keras gives the mask of its own.
        """
        real = _first(padding_mask, mask, inputs_mask)
        return self.layer(inputs, attention_mask=joined(attention_mask, real), training=training)[0]


class TransformerDecoder(HubBlock):
    """DecoderLayer with the arguments of keras_hub.layers.TransformerDecoder.

    Called with one sequence it has no attention to an encoder, as a layer of a language model.
    Unlike KerasHub's its attention has no biases, and it keeps no cache.

    Args:
        intermediate_dim, num_heads, dropout, activation, layer_norm_epsilon, kernel_initializer,
            normalize_first: see TransformerEncoder.

    Example:

    >>> import keras
    >>> from t2t_repro.layers import TransformerDecoder
    >>> x, memory = keras.Input((5, 16)), keras.Input((7, 16))
    >>> TransformerDecoder(intermediate_dim=32, num_heads=4)(x, memory).shape
    (None, 5, 16)
    >>> TransformerDecoder(intermediate_dim=32, num_heads=4)(x).shape
    (None, 5, 16)
    """

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        kind = self.encoder if encoder_sequence_shape is None else self.decoder
        self.layer = kind(decoder_sequence_shape[-1])
        build_all((self.layer,), decoder_sequence_shape, encoder_sequence_shape)

    def call(
        self,
        decoder_sequence,
        encoder_sequence=None,
        decoder_padding_mask=None,
        decoder_attention_mask=None,
        encoder_padding_mask=None,
        encoder_attention_mask=None,
        use_causal_mask=True,
        training=False,
        mask=None,
        decoder_sequence_mask=None,
        encoder_sequence_mask=None,
    ):
        """Maps (B, T, D) to (B, T, D).

        Args:
            decoder_sequence: (B, T, D).
            encoder_sequence: (B, S, D), at every call or at none; of another width too.
            decoder_padding_mask: bool (B, T), True at tokens; None: that of Keras.
            decoder_attention_mask: bool (B, T, T) or (B, N, T, T), True where a position may look.
            encoder_padding_mask: bool (B, S), True at tokens; None: that of Keras.
            encoder_attention_mask: bool (B, T, S) or (B, N, T, S), True where a position may look.
            use_causal_mask: whether nobody looks ahead.
            training: whether dropout is on.
            mask, decoder_sequence_mask, encoder_sequence_mask: where Keras gives masks of its own.

        Raises:
            UserError: if it was built without an encoder_sequence and gets one, or the reverse.
        """
        real = _first(decoder_padding_mask, mask, decoder_sequence_mask)
        arguments = {"attention_mask": joined(decoder_attention_mask, real, use_causal_mask)}
        given = encoder_sequence is not None
        if given != hasattr(self.layer, "encdec_attention"):
            raise UserError(
                "Expected an encoder_sequence at every call or at none: the first decides which "
                f"sublayers there are. Received: a call {'with' if given else 'without'} it. Make "
                "another layer."
            )
        if given:
            others = _first(encoder_padding_mask, encoder_sequence_mask)
            arguments["memory"] = encoder_sequence
            arguments["memory_mask"] = joined(encoder_attention_mask, others)
        return self.layer(decoder_sequence, **arguments, training=training)[0]


def _first(*masks):
    return next((mask for mask in masks if mask is not None), None)
