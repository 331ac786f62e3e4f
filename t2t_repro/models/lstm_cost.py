"""What the recurrent models hold and compute, counted from their hparams without making one."""

from t2t_repro.config import HParams
from t2t_repro.hparam_rules import ATTENDING
from t2t_repro.models.batch_shape import BatchShape


class LSTMCost:
    """The counts of one model.

    Args:
        hparams: its settings.

    Attributes:
        width: of the decoder, and of what the encoder has said.
        attention: of the decoder's attention; 0: it has none.
        softmax_depth: what the softmax reads.
    """

    def __init__(self, hparams: HParams):
        self._hp, depth = hparams, hparams.hidden_size
        self._sides = 2 if "bidirectional" in hparams.model else 1
        self.width = self._sides * depth
        attends = hparams.model in ATTENDING
        size = hparams.attention_layer_size or depth
        self.attention = hparams.num_heads * size if attends else 0
        told = attends and hparams.output_attention
        self._projected = self.attention * self.width if told and hparams.num_heads > 1 else 0
        self.softmax_depth = size if told and not self._projected else self.width

    def parameters(self) -> dict[str, int]:
        """Returns {"attention": ..., "others": ...}: all but the tables."""
        units = self._sides * self._hp.hidden_size + self.width
        biases = 4 * units * self._hp.num_hidden_layers
        attention = self._of_memory() + self._of_attention()
        if self.attention and self._hp.attention_mechanism == "bahdanau":
            attention += self._hp.num_heads * self.width
        attention += self.width if self._projected else 0
        cells = self._encoder_kernels() + self._decoder_kernels()
        return {"attention": attention, "others": cells + biases}

    def forward_flop(self, batch: BatchShape, vocab_size: int) -> float:
        """Returns the floating-point operations of a forward pass, as models/flops.py counts."""
        source, target = batch.source_tokens, batch.target_tokens
        pairs = target * batch.source_length * self.width if self.attention else 0
        of_target = self._decoder_kernels() + self._of_attention()
        of_target += self.softmax_depth * vocab_size
        of_source = self._encoder_kernels() + self._of_memory()
        return 2 * (source * of_source + target * of_target + 2 * pairs)

    def _encoder_kernels(self) -> int:
        return self._sides * self._hp.num_hidden_layers * 8 * self._hp.hidden_size**2

    def _decoder_kernels(self) -> int:
        first = self._hp.hidden_size + self.attention + self.width
        rest = (self._hp.num_hidden_layers - 1) * 2 * self.width
        return 4 * self.width * (first + rest)

    def _of_memory(self) -> int:
        return self.width**2 if self.attention else 0

    def _of_attention(self) -> int:
        queries = self.width**2 if self._hp.attention_mechanism == "bahdanau" else 0
        if not self.attention:
            return 0
        return queries + 2 * self.width * self.attention + self._projected
