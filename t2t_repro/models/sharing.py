"""Which embedding tables are shared: what hparams ask for and vocabularies allow."""

import os
from typing import NamedTuple

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem


class Sharing(NamedTuple):
    """Which tables are one."""

    both_sides: bool  # the embeddings of inputs and of targets
    softmax: bool  # these and the softmax


def tied_tables(hparams: HParams, inputs_vocab_size: int, targets_vocab_size: int) -> Sharing:
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


def check(hparams: HParams, problem: Problem, data_dir: str | os.PathLike) -> None:
    """Refuses one table for two vocabularies of a problem, in which an id means two things.

    Those of two sizes share nothing: see `tied_tables`.

    Args:
        hparams: the model's settings.
        problem: whose vocabularies are there.
        data_dir: the folder in which they lie.

    Raises:
        UserError: naming the hparams to change.
    """
    where = os.fspath(data_dir)
    if not problem.are_vocabularies_separate(where):
        return
    names = ("shared_embedding", "shared_embedding_and_softmax_weights")
    shared = [name for name in names if getattr(hparams, name)]
    sizes = problem.inputs_vocab_size(where), problem.targets_vocab_size(where)
    if tied_tables(hparams, *sizes).both_sides:
        raise UserError(
            f"Expected one vocabulary for both sides, because of {' and '.join(shared)}. Received: "
            f"two in {where!r}, with {rows(hparams, sizes[0]):,} embedding rows each. Use separate "
            f"embedding tables: --hparams={','.join(f'{name}=False' for name in shared)}."
        )
