"""A search among few tokens: those that a shortlist has for a sentence.

The logits of the others are never computed. The search knows the tokens of a sentence by their
places among its candidates, in the order of their ids. Probabilities are those among the
candidates; what stands beside a sentence in its batch does not matter, as ever.

Legend: B batch, K beams, U candidates, as many as a sentence of the batch has at most, P tokens of
a prefix, L tokens.
"""

import dataclasses
from typing import Any

import numpy as np
from keras import ops

from t2t_repro.decoding.beam_search import GROUP, StepFn
from t2t_repro.decoding.engine import Sentences
from t2t_repro.decoding.program import few_row_counts
from t2t_repro.layers.picking import pick
from t2t_repro.text.shortlist import Shortlist

Tensor = Any


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """What may be written in a batch.

    Attributes:
        ids: int32 (B, U): what pads, the end, the others in order; filled up with what pads.
        sentences: the batch with them as a fact, and which of them count: "allowed", bool (B, U).
            Its prefixes are places.
    """

    ids: np.ndarray
    sentences: Sentences

    @classmethod
    def of(cls, sentences: Sentences, shortlist: Shortlist) -> "Candidates":
        """Returns those of a batch; U is what a search needs where it is compiled for any."""
        facts, known = dict(sentences.facts), shortlist.among(sentences.inputs)
        wanted = known.copy()
        wanted[:, 0] = True
        if "prefixes" in facts:
            np.put_along_axis(wanted, facts["prefixes"], True, axis=1)
            places = np.cumsum(wanted, axis=1, dtype="int32") - 1
            facts["prefixes"] = np.take_along_axis(places, facts["prefixes"], axis=1)
        counts = wanted.sum(axis=1)
        size = max(few_row_counts(counts.max()), 2 * GROUP)
        size += -size % GROUP
        there = np.arange(size) < counts[:, None]
        ids, allowed = np.zeros(there.shape, "int32"), np.zeros(there.shape, bool)
        ids[there], allowed[there] = np.nonzero(wanted)[1], known[wanted]
        facts |= {"candidates": ids, "allowed": allowed}
        return cls(ids, dataclasses.replace(sentences, facts=facts))

    def ids_of(self, places: np.ndarray) -> np.ndarray:
        """Returns the ids of places int32 (B, K, L)."""
        return self.ids[np.arange(len(places))[:, None, None], places]


def among(step_fn: StepFn, ids: Tensor, allowed: Tensor) -> StepFn:
    """Returns a step function of places, around one of ids that computes candidates alone.

    Args:
        step_fn: takes ids, and returns logits (B, K, U).
        ids: int32 (B, U): the candidates.
        allowed: bool (B, U): which of them count.
    """

    def step(places: Tensor, parents: Tensor, step: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = step_fn(pick(ids, places), parents, step, state)
        return ops.where(allowed[:, None, :], logits, float("-inf")), state

    return step
