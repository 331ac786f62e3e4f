"""A model and what steers it, as a search meets them: the start, room for tokens, a step."""

from collections.abc import Mapping
from typing import Any

import keras

from t2t_repro.decoding.beam_search import StepFn
from t2t_repro.decoding.steering import Facts, Steering

Tensor = Any
Memory = Mapping[str, Any]


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
