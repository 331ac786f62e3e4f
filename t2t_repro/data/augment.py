"""What changes the pairs of a training: subword dropout, and both directions.

What is drawn follows from the run's seed, the batch's number since the run began and the example's
place in it. So every epoch has other pairs, and a run that goes on has the same ones.
"""

import math
import os
import random
from collections.abc import Callable

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.data.cache import Examples
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text import transfer
from t2t_repro.text.subword import SubwordTextEncoder

_SUBWORDS, _DIRECTIONS = 2, 3  # which random stream; batching.py has the first two

# Of a batch, its number since the run began, and the places of this reader's examples in the whole.
Change = Callable[[Examples, int, slice], Examples]


def changes(
    problem: Problem, hparams: HParams, data_dir: str | os.PathLike, seed: int, longest: int
) -> list[Change]:
    """Returns what is done to each batch, in order.

    Args:
        problem: the problem.
        hparams: with subword_dropout and bidirectional_steps.
        data_dir: the folder of the vocabularies.
        seed: of the run.
        longest: the most ids of a side whose words are cut anew.

    Raises:
        UserError: if the problem is not made for it.
    """
    made: list[Change] = []
    if not (hparams.bidirectional_steps or hparams.subword_dropout):
        return made
    encoders = problem.feature_encoders(os.fspath(data_dir))
    if hparams.bidirectional_steps:
        one, other = (encoders[side] for side in SIDES)
        alike = one is other or transfer.pieces_of(one) == transfer.pieces_of(other)
        if problem.packed_length or not learns_its_targets(problem) or not alike:
            raise UserError(
                "bidirectional_steps turns single pairs of sentences round, which need one "
                f"vocabulary for both sides, and no teacher. Received: {problem.name}. Leave it "
                "out: --hparams=bidirectional_steps=0."
            )
        made.append(_both_directions(hparams.bidirectional_steps, seed))
    if hparams.subword_dropout:
        subwords = {n: encoders[n] for n in SIDES if isinstance(encoders[n], SubwordTextEncoder)}
        if problem.packed_length or not subwords:
            raise UserError(
                "subword_dropout cuts single sentences into tensor2tensor's subwords. Received: "
                f"{problem.name}, which is packed or has other vocabularies. Leave it out: "
                "--hparams=subword_dropout=0."
            )
        made.append(_subword_dropout(hparams, subwords, seed, longest))
    return made


def _both_directions(until: int, seed: int) -> Change:
    """Turns half of the pairs round, drawn anew for each batch: the target becomes the source.

    Lengths decide before that which batch a pair belongs to, by its longer side.

    Source: Ding et al. (2021), "Improving Neural Machine Translation by Bidirectional Training",
    arXiv 2109.07780. There a training begins with all pairs in both directions.
    """

    def change(batch: Examples, number: int, own: slice) -> Examples:
        if number >= until:
            return batch
        draw = np.random.default_rng((seed, number, _DIRECTIONS))
        turned = draw.random(len(batch.lengths["inputs"]) * (own.step or 1))[own] < 0.5

        def sides(of: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            both = [of[side] for side in SIDES]
            return dict(zip(SIDES, np.where(turned, both[::-1], both), strict=True))

        return Examples(batch.ids, sides(batch.starts), sides(batch.lengths))

    return change


def _subword_dropout(
    hparams: HParams, encoders: dict[str, SubwordTextEncoder], seed: int, longest: int
) -> Change:
    """Cuts words into other subwords, by `SubwordTextEncoder.resegment`.

    A side of another vocabulary stays as it is, and so does one that would become longer than
    `longest`. Lengths decide before that which batch an example belongs to.
    """
    final = hparams.subword_dropout_final_steps
    until = max(hparams.train_steps - final, 0) if final else math.inf

    def change(batch: Examples, number: int, own: slice) -> Examples:
        if number >= until:
            return batch
        sides = {side: batch.lists(side) for side in SIDES}
        size = len(sides["inputs"]) * (own.step or 1)
        whole = np.random.default_rng((seed, number, _SUBWORDS))
        seeds = whole.integers(2**63, size=size)[own].tolist()
        draws = [random.Random(each).random for each in seeds]
        for side, encoder in encoders.items():
            for row, (ids, draw) in enumerate(zip(sides[side], draws, strict=True)):
                found = encoder.resegment(ids, hparams.subword_dropout, draw)
                if len(found) <= longest:
                    sides[side][row] = found
        return Examples.of(sides)

    return change


def learns_its_targets(problem: Problem) -> bool:
    """Whether a problem's sides are the inputs and targets of its records, either way round."""
    return {problem.stored_feature(side) for side in SIDES} == set(SIDES)
