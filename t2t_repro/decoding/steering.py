"""What steers a search besides the model: a constraint, a least length, beginnings, samples.

Each of them is a step function around another; the search itself knows of none. What they must know
of the sentences are the facts, arrays whose first axis is B, which stay constant while the search
runs:

    "words"     int32 (B, W): what `constraint.facts` returned, padded with -1
    "least"     int32 (B,): the fewest tokens before the end
    "prefixes"  int32 (B, P): the tokens that a translation begins with, padded with 0
    "draws"     float32 (B, L): the random number of each step

Legend: B batch, K beams, V vocabulary, W words, P tokens of a prefix, L tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from t2t_repro.decoding.beam_search import INF, StepFn
from t2t_repro.decoding.constraint import Constraint, constrained, initial_state
from t2t_repro.decoding.sampling import sampled
from t2t_repro.decoding.settings import Sampling
from t2t_repro.text.encoders import EOS_ID

Tensor = Any
Facts = Mapping[str, Tensor]
Memory = Mapping[str, Any]

FILL = {"words": -1, "least": 0, "prefixes": 0, "draws": 0}  # what each is padded with


@dataclass(frozen=True)
class Steering:
    """The fixed part, by which compiled programs are told apart; the rest are the facts.

    constraint: what the search may write; None: anything. It reads the fact "words".
    sampling: how to draw tokens; None: search. It reads the fact "draws".
    """

    constraint: Constraint | None = None
    sampling: Sampling | None = None

    def initial_state(self, model_state: Any, facts: Facts, limits: Tensor, beams: int) -> Any:
        """Returns the state at the start, of the model and of the constraint."""
        if self.constraint is None:
            return model_state
        state = initial_state(self.constraint, facts["words"], limits, beams)
        return {**state, "model": model_state}

    def with_room(self, state: Any, make_room: Callable[[Any], Any]) -> Any:
        """Returns the state with `make_room` done to the model's part of it."""
        if self.constraint is None:
            return make_room(state)
        return {**state, "model": make_room(state["model"])}

    def steer(self, step_fn: StepFn, facts: Facts) -> StepFn:
        """Returns a step function that obeys; without facts, `step_fn` itself.

        With facts it returns log-probabilities, as `beam_search.Rules.constrained` says.
        """
        if not facts:
            return step_fn
        step_fn = normalized(step_fn)
        if self.constraint is not None:
            step_fn = constrained(step_fn, self.constraint)
        if "least" in facts:
            step_fn = not_before(step_fn, facts["least"])
        if "prefixes" in facts:
            step_fn = prefixed(step_fn, facts["prefixes"])
        if self.sampling is not None:
            step_fn = sampled(step_fn, facts["draws"], self.sampling)
        return step_fn


UNSTEERED = Steering()


class SteeredModel:
    """What a search asks of a model.

    Args:
        model: a `SequenceModel`, or an `Ensemble` of them.
        steering: see `Steering`.
    """

    def __init__(self, model: keras.Model, steering: Steering):
        self.model, self.steering = model, steering

    def start(
        self, inputs: Tensor, facts: Facts, limits: Tensor, batch: Tensor, beams: int
    ) -> tuple[Memory, Any]:
        """Returns what stays constant, with rows of B, and the state at the start.

        Args:
            inputs: int32 (B, S), padded with 0.
            facts: what steers the search of each sentence: see decoding/steering.py.
            limits: int32 (B,), the most tokens of each.
            batch: B.
            beams: K.
        """
        memory = {"model": self.model.start_decoding(inputs), "facts": facts}
        state = self.model.initial_state(batch, beams)
        return memory, self.steering.initial_state(state, facts, limits, beams)

    def make_room(self, state: Any, more: Tensor) -> Any:
        """Returns the state with room for `more` steps."""
        return self.steering.with_room(state, lambda own: self.model.make_room(own, more))

    def step_fn(self, memory: Memory, layout: Any) -> StepFn:
        """Returns the step of the search.

        Args:
            memory: what `start` returned, of the sentences that are left.
            layout: what the model's own `layout` returned, where that pays.
        """

        def step(ids: Tensor, parents: Tensor, position: Tensor, state: Any) -> tuple[Tensor, Any]:
            return self.model.decode_step(ids, parents, position, state, memory["model"], layout)

        return self.steering.steer(step, memory["facts"])


def normalized(step_fn: StepFn) -> StepFn:
    """Returns a step function that gives log-probabilities, in float32."""

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = step_fn(ids, parents, step, state)
        logits = ops.cast(logits, "float32")
        return logits - ops.logsumexp(logits, axis=-1, keepdims=True), state

    return step


def not_before(step_fn: StepFn, least: Tensor) -> StepFn:
    """Returns a step function that forbids the end before `least` (B,) tokens.

    The other tokens keep their probability, as under a constraint.
    """

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs, state = step_fn(ids, parents, step, state)
        end = ops.equal(ops.arange(ops.shape(log_probs)[-1]), EOS_ID)
        early = ops.less(step, least)[:, None, None]
        return ops.where(ops.logical_and(early, end), -INF, log_probs), state

    return step


def prefixed(step_fn: StepFn, prefixes: Tensor) -> StepFn:
    """Returns a step function that begins with `prefixes` (B, P), padded with 0.

    As tensor2tensor's partial_targets: what is given is certain, so it counts 0 in the score, and
    only in the length.
    """
    length = ops.shape(prefixes)[1]

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs, state = step_fn(ids, parents, step, state)
        token = ops.take(prefixes, ops.minimum(step, length - 1), axis=1)[:, None, None]
        given = ops.logical_and(ops.less(step, length), token != 0)
        tokens = ops.arange(ops.shape(log_probs)[-1], dtype="int32")
        only = ops.where(ops.equal(tokens, token), 0.0, -INF)
        return ops.where(given, only, log_probs), state

    return step
