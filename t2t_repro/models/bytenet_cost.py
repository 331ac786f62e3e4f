"""What ByteNet holds and computes, counted from its hparams without making it."""

from t2t_repro.config import HParams
from t2t_repro.models.batch_shape import BatchShape

LENGTHS = 50  # there are only multiples of this many positions


def parameters(hparams: HParams) -> dict[str, int]:
    """Returns {"norms": ..., "others": kernels}: all but the tables."""
    blocks = 2 * hparams.num_block_repeat
    norms = blocks * (1 + hparams.num_hidden_layers) + 1
    return {"norms": norms * 2 * hparams.hidden_size, "others": _kernels(hparams)}


def forward_flop(hparams: HParams, batch: BatchShape, vocab_size: int) -> float:
    """Returns the floating-point operations of a forward pass, as models/flops.py counts."""
    softmax = batch.target_tokens * hparams.hidden_size * vocab_size
    return 2 * (positions(batch) * _kernels(hparams) + softmax)


def positions(batch: BatchShape) -> float:
    """Returns how many positions are computed: both sides have the same, a multiple of LENGTHS."""
    longest = max(1.5 * batch.source_length, batch.target_length)
    return batch.sentences * -(-longest // LENGTHS) * LENGTHS


def _kernels(hparams: HParams) -> int:
    convolutions = 2 * hparams.num_block_repeat * hparams.num_hidden_layers
    return (convolutions + 2) * hparams.kernel_height * hparams.hidden_size**2
