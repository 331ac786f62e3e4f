"""The cost of a training step, by counting its matrix products.

A product of (m, k) by (k, n) is 2 m k n floating-point operations. Everything else (softmax, norms,
dropout, look-ups, the optimizer) is left out, as is usual: it is under 2% of the operations.
"""

from dataclasses import dataclass

from t2t_repro.config import HParams
from t2t_repro.errors import UserError

BACKWARD = 2  # products for each one forward: the gradients of its two factors


@dataclass(frozen=True)
class BatchShape:
    """Sentences of a batch and the tokens of each side of one, padding included.

    Both lengths may be fractions: the mean of many batches.
    """

    sentences: float
    source_length: float
    target_length: float

    def __post_init__(self):
        if min(self.sentences, self.source_length, self.target_length) <= 0:
            raise UserError(
                "Expected a batch of at least one sentence, and lengths above 0. Received: "
                f"{self.sentences} sentences of {self.source_length} source and "
                f"{self.target_length} target tokens."
            )

    @classmethod
    def of_tokens(cls, tokens: float, length: float) -> "BatchShape":
        """Returns the batch of `tokens` source and as many target tokens, `length` in a row."""
        return cls(tokens / length, length, length)

    @property
    def source_tokens(self) -> float:
        """B S."""
        return self.sentences * self.source_length

    @property
    def target_tokens(self) -> float:
        """B T."""
        return self.sentences * self.target_length


def forward_flop(hparams: HParams, batch: BatchShape, vocab_size: int) -> float:
    """Returns the floating-point operations of one forward pass.

    Masked products count: the usual implementation computes them, and ours does. The products of
    relative positions are not counted.

    Args:
        hparams: the model's sizes.
        batch: the tokens.
        vocab_size: V of the softmax.
    """
    depth = hparams.hidden_size
    keys = hparams.attention_key_channels or depth
    values = hparams.attention_value_channels or depth
    source, target = batch.source_tokens, batch.target_tokens

    def attention(queries: float, memory: float, memory_length: float) -> float:
        """Queries and output at `queries` tokens, keys and values at `memory` tokens."""
        projections = 2 * depth * (keys + values) * (queries + memory)
        return projections + 2 * queries * memory_length * (keys + values)

    def feed_forward(tokens: float) -> float:
        return 2 * 2 * tokens * depth * hparams.filter_size

    encoder_layer = attention(source, source, batch.source_length) + feed_forward(source)
    decoder_layer = (
        attention(target, target, batch.target_length)
        + attention(target, source, batch.source_length)
        + feed_forward(target)
    )
    softmax = 2 * target * depth * vocab_size
    return hparams.encoder_layers * encoder_layer + hparams.decoder_layers * decoder_layer + softmax


def train_step_flop(hparams: HParams, batch: BatchShape, vocab_size: int) -> float:
    """Returns the floating-point operations of one training step: forward and backward."""
    return (1 + BACKWARD) * forward_flop(hparams, batch, vocab_size)
