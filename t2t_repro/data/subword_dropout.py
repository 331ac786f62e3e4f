"""Subword regularization: the words of a training batch are cut anew (hparam subword_dropout).

What is drawn follows from the run's seed, the batch's number since the run began and the example's
place in it, so that every epoch has other subwords and a run that goes on has the same ones.
"""

import math
import os
import random

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.data import example
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text.subword import SubwordTextEncoder

_STREAM = 2  # which random stream; buckets.py has the first two


class SubwordDropout:
    """Cuts the examples of batches anew, by `SubwordTextEncoder.cut_anew`.

    A side of another vocabulary stays as it is, and so does one that would become longer than
    `longest`. Lengths decide before that which batch an example belongs to.

    Args:
        problem: the problem.
        hparams: with subword_dropout.
        data_dir: the folder of the vocabularies.
        seed: of the run.
        longest: the most ids of either side.

    Raises:
        UserError: if the problem is packed, or neither side has tensor2tensor's subwords.
    """

    def __init__(
        self,
        problem: Problem,
        hparams: HParams,
        data_dir: str | os.PathLike,
        seed: int,
        longest: int,
    ):
        encoders = {
            name: encoder
            for name, encoder in problem.feature_encoders(os.fspath(data_dir)).items()
            if name in ("inputs", "targets")
        }
        self._encoders = {
            problem.stored_feature(name): encoder
            for name, encoder in encoders.items()
            if isinstance(encoder, SubwordTextEncoder)
        }
        if problem.packed_length or not self._encoders:
            kinds = " and ".join(type(encoder).__name__ for encoder in encoders.values())
            what = "which is packed" if problem.packed_length else f"whose encoders are {kinds}"
            raise UserError(
                "subword_dropout cuts single sentences into tensor2tensor's subwords. Received: "
                f"{problem.name}, {what}. Leave it out: --hparams=subword_dropout=0."
            )
        self._stored = [problem.stored_feature(name) for name in encoders]
        self._rate, self._seed, self._longest = hparams.subword_dropout, seed, longest
        final = hparams.subword_dropout_final_steps
        self._until = max(hparams.train_steps - final, 0) if final else math.inf

    def __call__(self, records: np.ndarray, number: int, own: slice = slice(None)) -> np.ndarray:
        """Returns the records of a batch, serialized examples, with their words cut anew; those of
        subword_dropout_final_steps as they are.

        Args:
            records: those of this reader, (R,) of bytes.
            number: that of the batch since the run began.
            own: the places of this reader's records in the whole batch.
        """
        if number >= self._until:
            return records
        whole = np.random.default_rng((self._seed, number, _STREAM))
        size = len(records) * (own.step or 1)
        seeds = whole.integers(2**63, size=size)[own].tolist()
        cut = np.empty(len(records), object)
        cut[:] = [self._cut(*each) for each in zip(records, seeds, strict=True)]
        return cut

    def _cut(self, record: bytes, seed: int) -> bytes:
        stored, draw = example.lists(record), random.Random(seed).random
        sides = {}
        for name in self._stored:
            ids = sides[name] = stored[name]
            if name in self._encoders:
                anew = self._encoders[name].cut_anew(ids, self._rate, draw)
                sides[name] = anew if len(anew) <= self._longest else ids
        return example.serialize(sides)
