"""What a search may write: a constraint forbids tokens, step by step, and the search obeys it.

A constraint is made once for a vocabulary. It knows some numbers of each source sentence, its
facts, and carries a state along each beam, which `constrained` moves with the beams:

    constraint.facts(sources) -> int32 (B, W)                 of source texts, as wide as they need
    constraint.initial_state(facts (B, W), limits (B,), beams) -> state, leaves int32 (B, K, ...)
    constraint.allowed(ids (B, K), step, state) -> (allowed bool (B, K, V), state)

`constrained` puts one between a search and a model. The forbidden tokens get probability 0, and the
others keep theirs: a hypothesis is not worth more because the model had no choice.
Legend: B batch, K beams, V vocabulary, W words. `parsing/constraint.py` has the one for trees.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import keras
import numpy as np
from keras import ops

from t2t_repro.decoding.beam_search import INF, StepFn
from t2t_repro.layers.picking import pick

Tensor = Any
State = Any


class Constraint(Protocol):
    """See the module's docstring."""

    def facts(self, sources: Sequence[str]) -> np.ndarray: ...

    def initial_state(self, facts: Tensor, limits: Tensor, beams: int) -> State: ...

    def allowed(self, ids: Tensor, step: Tensor, state: State) -> tuple[Tensor, State]: ...


def constrained(step_fn: StepFn, constraint: Constraint) -> StepFn:
    """Returns a step function that obeys a constraint: -INF where a token is forbidden.

    Its state is {"model": the state of `step_fn`, "constraint": that of the constraint}. It and
    `step_fn` return log-probabilities (B, K, V).
    """

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: State) -> tuple[Tensor, State]:
        log_probs, model_state = step_fn(ids, parents, step, state["model"])
        moved = keras.tree.map_structure(lambda leaf: pick(leaf, parents), state["constraint"])
        allowed, constraint_state = constraint.allowed(ids, step, moved)
        log_probs = ops.where(allowed, log_probs, -INF)
        return log_probs, {"model": model_state, "constraint": constraint_state}

    return step
