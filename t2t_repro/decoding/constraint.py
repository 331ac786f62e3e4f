"""What a search may write: a constraint forbids tokens, step by step, and the search obeys it.

A constraint is made once for a vocabulary. It knows some numbers of each source sentence, its
facts, and carries a state along each beam, which `constrained` moves with the beams:

    constraint.facts(sources) -> int32 (B, W)                 of source texts, as wide as they need
    constraint.initial_state(facts (B, W), limits (B,), beams) -> state, leaves int32 (B, K, ...)
    constraint.allowed(ids (B, K), step, state) -> (allowed bool (B, K, V), state)
    constraint.progress(state) -> (written, left), int32 (B, K): words of the source
    constraint.writes_word: int32 (V,), 1 for the tokens that each write a word of the source

`constrained` puts one between a search and a model. The forbidden tokens get probability 0, and the
others keep theirs: a hypothesis is not worth more because the model had no choice.

A beam compares hypotheses of as many tokens. Those that put the words off would win, and pay later.
So each is charged its future cost, as in phrase-based translation (Koehn et al., 2003): a price for
every word that is left. The price is a word's entropy, of the model's choices along the best
hypothesis so far. At the end no word is left, and the score of a hypothesis is the model's; one
that meets its limit before keeps the charge.
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

    def progress(self, state: State) -> tuple[Tensor, Tensor]: ...

    writes_word: np.ndarray


def initial_state(constraint: Constraint, facts: Tensor, limits: Tensor, beams: int) -> State:
    """Returns the state of `constrained` at the start, without the model's.

    {"constraint": that of the constraint}, and where beams are compared "future", float32 (B, K):
    the "entropy" of the choices so far, and the "price" of a word that the scores were charged.
    """
    state = {"constraint": constraint.initial_state(facts, limits, beams)}
    if beams == 1:
        return state
    nothing = ops.zeros((ops.shape(limits)[0], beams), "float32")
    return {**state, "future": {"entropy": nothing, "price": nothing}}


def constrained(step_fn: StepFn, constraint: Constraint) -> StepFn:
    """Returns a step function that obeys a constraint: -INF where a token is forbidden.

    Its state is `initial_state` with "model", the state of `step_fn`. It and `step_fn` return
    log-probabilities (B, K, V), those of `step_fn` of more where the model's table is larger; its
    own have the future cost in them.
    """

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: State) -> tuple[Tensor, State]:
        log_probs, model_state = step_fn(ids, parents, step, state["model"])
        log_probs = log_probs[..., : len(constraint.writes_word)]  # of vocab_divisor are more
        own = {name: part for name, part in state.items() if name != "model"}
        own = keras.tree.map_structure(lambda leaf: pick(leaf, parents), own)
        allowed, own["constraint"] = constraint.allowed(ids, step, own["constraint"])
        if "future" in own:
            log_probs, own["future"] = _charged(log_probs, constraint, **own)
        log_probs = ops.where(allowed, log_probs, -INF)
        return log_probs, {**own, "model": model_state}

    return step


def _charged(
    log_probs: Tensor, rule: Constraint, constraint: State, future: State
) -> tuple[Tensor, State]:
    """The log-probabilities with the change of the future cost, and the new state of it."""
    written, left = (ops.cast(words, "float32") for words in rule.progress(constraint))
    # As if there had been one word more, of one nat: the first ones say little.
    price = (1.0 + future["entropy"][:, :1]) / (1.0 + written[:, :1])
    before = future["price"] * left
    after = price[..., None] * (left[..., None] - ops.cast(rule.writes_word, "float32"))
    entropy = future["entropy"] - ops.sum(ops.exp(log_probs) * log_probs, axis=-1)
    log_probs = log_probs + before[..., None] - after
    return log_probs, {"entropy": entropy, "price": ops.broadcast_to(price, ops.shape(left))}
