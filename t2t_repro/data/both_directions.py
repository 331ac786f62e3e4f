"""Bidirectional training: pairs the other way round among the first (hparam bidirectional_steps).

What is drawn follows from the run's seed, the batch's number since the run began and the example's
place in it, as in `subword_dropout.py`.
"""

import os

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.data import example, records
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text.encoders import TextEncoder

_STREAM = 3  # which random stream; buckets.py and subword_dropout.py have the first three


class BothDirections:
    """Turns half of the pairs round, drawn anew for each batch: the target becomes the source.

    Lengths decide before that which batch a pair belongs to, by its longer side.

    Source: Ding et al. (2021), "Improving Neural Machine Translation by Bidirectional Training",
    arXiv 2109.07780. There a training begins with all pairs in both directions.

    Args:
        problem: the problem.
        hparams: with bidirectional_steps.
        data_dir: the folder of the vocabularies.
        seed: of the run.

    Raises:
        UserError: if the problem is packed, learns what a teacher wrote, or has two vocabularies.
    """

    def __init__(self, problem: Problem, hparams: HParams, data_dir: str | os.PathLike, seed: int):
        encoders = problem.feature_encoders(os.fspath(data_dir))
        inputs, targets = (encoders[name] for name in records.FEATURES)
        received = ""
        if problem.packed_length:
            received = "which is packed"
        elif not learns_its_targets(problem):
            received = "which learns what a teacher wrote, in one direction"
        elif not _are_one(inputs, targets):
            received = f"which has two, of {inputs.vocab_size} and {targets.vocab_size} symbols"
        if received:
            raise UserError(
                "bidirectional_steps turns single pairs of sentences round, which need one "
                f"vocabulary for both sides. Received: {problem.name}, {received}. Leave it out: "
                "--hparams=bidirectional_steps=0."
            )
        self._seed, self._until = seed, hparams.bidirectional_steps

    def __call__(self, batch: np.ndarray, number: int, own: slice = slice(None)) -> np.ndarray:
        """Returns the records of a batch, serialized examples, half of them turned round; those
        after bidirectional_steps as they are.

        Args:
            batch: the records of this reader, (R,) of bytes.
            number: that of the batch since the run began.
            own: the places of this reader's records in the whole batch.
        """
        if number >= self._until:
            return batch
        draw = np.random.default_rng((self._seed, number, _STREAM))
        turned = draw.random(len(batch) * (own.step or 1))[own] < 0.5
        result = batch.copy()
        result[turned] = [_turned(record) for record in batch[turned]]
        return result


def learns_its_targets(problem: Problem) -> bool:
    """Whether a problem's sides are the inputs and targets of its records, either way round."""
    return {problem.stored_feature(name) for name in records.FEATURES} == set(records.FEATURES)


def _are_one(inputs: TextEncoder, targets: TextEncoder) -> bool:
    """Whether every id means the same to both."""
    if inputs is targets:
        return True
    if type(inputs) is not type(targets) or inputs.vocab_size != targets.vocab_size:
        return False
    ids = range(inputs.vocab_size)
    return inputs.decode_list(ids) == targets.decode_list(ids)


def _turned(record: bytes) -> bytes:
    stored = example.lists(record)
    source, target = records.FEATURES
    return example.serialize({source: stored[target], target: stored[source]})
