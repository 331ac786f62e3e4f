"""The cost of a training step, by counting its matrix products.

A product of (m, k) by (k, n) is 2 m k n floating-point operations. Everything else (softmax, norms,
dropout, look-ups, the optimizer) is left out, as is usual: it is under 2% of the operations.
"""

from t2t_repro.config import HParams
from t2t_repro.hparam_rules import BYTENET, RECURRENT
from t2t_repro.models import bytenet_cost
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.lstm_cost import LSTMCost

BACKWARD = 2  # products for each one forward: the gradients of its two factors


def forward_flop(hparams: HParams, batch: BatchShape, vocab_size: int) -> float:
    """Returns the floating-point operations of one forward pass.

    Masked products count: the usual implementation computes them, and ours does; restricted
    self-attention counts as if it were not. The products of relative positions, and what a score
    other than a dot product adds, are not counted.

    Args:
        hparams: the model's sizes.
        batch: the tokens.
        vocab_size: V of the softmax.
    """
    if hparams.model in RECURRENT:
        return LSTMCost(hparams).forward_flop(batch, vocab_size)
    if hparams.model == BYTENET:
        return bytenet_cost.forward_flop(hparams, batch, vocab_size)
    tokens, memory = batch.target_tokens, batch.source_tokens
    decoder = _decoder_layer_flop(hparams, tokens, memory, batch.target_length, batch.source_length)
    softmax = 2 * tokens * hparams.hidden_size * vocab_size
    return _encoder_flop(hparams, batch) + hparams.decoder_layers * decoder + softmax


def train_step_flop(hparams: HParams, batch: BatchShape, vocab_size: int) -> float:
    """Returns the floating-point operations of one training step: forward and backward.

    Those of R-Drop's two passes; layers that layer-drop leaves out are computed.
    """
    passes = 2 if hparams.r_drop_alpha else 1
    return passes * (1 + BACKWARD) * forward_flop(hparams, batch, vocab_size)


def decode_flop(hparams: HParams, batch: BatchShape, vocab_size: int, beam_size: int) -> float:
    """Returns the floating-point operations of decoding a batch, one position after another.

    The encoder runs once, and so do the products of its outputs that the decoder looks at; a beam's
    position sees half of the target's length on average.
    """
    tokens, memory = beam_size * batch.target_tokens, batch.source_tokens
    seen = batch.target_length / 2
    decoder = _decoder_layer_flop(hparams, tokens, memory, seen, batch.source_length)
    softmax = 2 * tokens * hparams.hidden_size * vocab_size
    return _encoder_flop(hparams, batch) + hparams.decoder_layers * decoder + softmax


def _encoder_flop(hparams: HParams, batch: BatchShape) -> float:
    tokens = batch.source_tokens
    attention = _attention_flop(hparams, tokens, tokens, batch.source_length)
    return hparams.encoder_layers * (attention + _feed_forward_flop(hparams, tokens))


def _decoder_layer_flop(
    hparams: HParams, tokens: float, memory: float, target_length: float, source_length: float
) -> float:
    own = _attention_flop(hparams, tokens, tokens, target_length)
    cross = _attention_flop(hparams, tokens, memory, source_length)
    return own + cross + _feed_forward_flop(hparams, tokens)


def _attention_flop(hparams: HParams, queries: float, memory: float, length: float) -> float:
    """Queries and outputs of `queries` tokens, keys and values of `memory`, `length` a sentence."""
    depth = hparams.hidden_size
    channels = (hparams.attention_key_channels or depth) + (
        hparams.attention_value_channels or depth
    )
    return 2 * depth * channels * (queries + memory) + 2 * queries * length * channels


def _feed_forward_flop(hparams: HParams, tokens: float) -> float:
    return 2 * 2 * tokens * hparams.hidden_size * hparams.filter_size
