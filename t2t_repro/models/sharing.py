"""Which tables of embeddings are one: hparams say what is wanted, vocabularies what can be."""

from typing import NamedTuple

from t2t_repro.config import HParams


class Sharing(NamedTuple):
    """What one table is for."""

    both_sides: bool  # the embeddings of inputs and of targets
    softmax: bool  # these and the softmax


def of(hparams: HParams, inputs_vocab_size: int, targets_vocab_size: int) -> Sharing:
    """Returns what a model shares.

    Tables of different numbers of rows share nothing, not even those of targets and softmax
    (tensor2tensor's utils/t2t_model.py, `T2TModel.__init__`, which then unsets
    shared_embedding_and_softmax_weights).

    Args:
        hparams: the model's settings.
        inputs_vocab_size: ids of the inputs.
        targets_vocab_size: ids of the targets.
    """
    fits = rows(hparams, inputs_vocab_size) == rows(hparams, targets_vocab_size)
    softmax = fits and hparams.shared_embedding_and_softmax_weights
    return Sharing(softmax or fits and hparams.shared_embedding, softmax)


def rows(hparams: HParams, vocab_size: int) -> int:
    """Returns how many rows the table of so many ids has: a multiple of vocab_divisor."""
    return -(-vocab_size // hparams.vocab_divisor) * hparams.vocab_divisor
