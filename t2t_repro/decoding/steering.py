"""What steers a search besides the model: a constraint, a least length, forced prefixes, samples.

Each is a step function around another; the search itself (beam_search.py) knows none of them. They
read the facts of the sentences (search.py), which stay constant during the search.

Legend: B batch, K beams, V vocabulary, W words, P tokens of a prefix, L tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from t2t_repro.decoding.beam_search import INF, Rules, StepFn
from t2t_repro.decoding.program import Program
from t2t_repro.decoding.search import Constraint, State, Tensor
from t2t_repro.decoding.settings import Sampling
from t2t_repro.layers.kernels import gather_beams
from t2t_repro.text.encoders import EOS_ID

SentenceInputs = Mapping[str, Tensor]
Stepped = tuple[Tensor, State]  # of each token its log-probability or logit, and the next state

FILL = {"words": -1, "least": 0, "prefixes": 0, "draws": 0}  # what each is padded with


@dataclass(frozen=True)
class SteeredModel:
    """The functions of a model that a search calls.

    model: a `SequenceModel`, or an `Ensemble` of them.
    constraint, sampling: as those of `Search`.
    """

    model: keras.Model
    constraint: Constraint | None = None
    sampling: Sampling | None = None

    def start(
        self, inputs: Tensor, facts: SentenceInputs, limits: Tensor, batch: Tensor, beams: int
    ) -> tuple[Mapping[str, Any], Any]:
        """Returns what stays constant, with rows of B, and the state at the start.

        Args:
            inputs: int32 (B, S), padded with 0.
            facts: see decoding/search.py.
            limits: int32 (B,), the most tokens of each.
            batch: B.
            beams: K.
        """
        memory = {"model": self.model.start_decoding(inputs), "facts": facts}
        state = self.model.initial_state(batch, beams)
        if self.constraint is not None:
            own = constrained_state(self.constraint, facts["words"], limits, beams)
            state = {**own, "model": state}
        return memory, state

    def make_room(self, state: Any, more: Tensor) -> Any:
        """Returns the state with room for `more` steps."""
        if self.constraint is None:
            return self.model.make_room(state, more)
        return {**state, "model": self.model.make_room(state["model"], more)}

    def step_fn(self, memory: Mapping[str, Any], layout: Any) -> StepFn:
        """Returns the step of the search, which obeys the facts.

        With facts it returns log-probabilities, as `beam_search.Rules.constrained` says.

        Args:
            memory: what `start` returned, of the remaining sentences.
            layout: what the model's own `layout` returned, where that pays.
        """

        def of_model(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> Stepped:
            return self.model.decode_step(ids, parents, step, state, memory["model"], layout)

        if not (facts := memory["facts"]):
            return of_model
        step_fn = normalized(of_model)
        if self.constraint is not None:
            step_fn = constrained(step_fn, self.constraint)
        if "least" in facts:
            step_fn = min_length(step_fn, facts["least"])
        if "prefixes" in facts:
            step_fn = forced_prefix(step_fn, facts["prefixes"])
        if self.sampling is not None:
            step_fn = sampled(step_fn, facts["draws"], self.sampling)
        return step_fn


class SearchProgram(Program):
    """The compiled part of a search.

    Args:
        steered: the model.
        rules: see `Rules`.
    """

    def __init__(self, steered: SteeredModel, rules: Rules):
        super().__init__(steered.model)
        self.steered, self.rules = steered, rules


def normalized(step_fn: StepFn) -> StepFn:
    """Returns a step function of float32 log-probabilities."""

    def normalized_step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> Stepped:
        logits, state = step_fn(ids, parents, step, state)
        logits = ops.cast(logits, "float32")
        return logits - ops.logsumexp(logits, axis=-1, keepdims=True), state

    return normalized_step


def min_length(step_fn: StepFn, least: Tensor) -> StepFn:
    """Returns a step function that forbids the end before `least` (B,) tokens.

    The other tokens keep their probability, as under a constraint.
    """

    def min_length_step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> Stepped:
        log_probs, state = step_fn(ids, parents, step, state)
        end = ops.equal(ops.arange(ops.shape(log_probs)[-1]), EOS_ID)
        early = ops.less(step, least)[:, None, None]
        return ops.where(ops.logical_and(early, end), -INF, log_probs), state

    return min_length_step


def forced_prefix(step_fn: StepFn, prefixes: Tensor) -> StepFn:
    """Returns a step function that begins with `prefixes` (B, P), padded with 0.

    As tensor2tensor's partial_targets: given tokens are certain, so they count 0 in the score, and
    count in the length.
    """
    length = ops.shape(prefixes)[1]

    def forced_prefix_step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> Stepped:
        log_probs, state = step_fn(ids, parents, step, state)
        token = ops.take(prefixes, ops.minimum(step, length - 1), axis=1)[:, None, None]
        given = ops.logical_and(ops.less(step, length), token != 0)
        tokens = ops.arange(ops.shape(log_probs)[-1], dtype="int32")
        only = ops.where(ops.equal(tokens, token), 0.0, -INF)
        return ops.where(given, only, log_probs), state

    return forced_prefix_step


# --- constraints ---------------------------------------------------------------------------------


def constrained_state(constraint: Constraint, facts: Tensor, limits: Tensor, beams: int) -> State:
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

    Its state is `constrained_state` with "model", the state of `step_fn`. It and `step_fn` return
    log-probabilities (B, K, V), those of `step_fn` of more where the model's table is larger; its
    own have the future cost in them.
    """

    def constrained_step(ids: Tensor, parents: Tensor, step: Tensor, state: State) -> Stepped:
        log_probs, model_state = step_fn(ids, parents, step, state["model"])
        log_probs = log_probs[..., : len(constraint.writes_word)]  # of vocab_divisor are more
        own = {name: part for name, part in state.items() if name != "model"}
        own = keras.tree.map_structure(lambda leaf: gather_beams(leaf, parents), own)
        allowed, own["constraint"] = constraint.allowed(ids, step, own["constraint"])
        if "future" in own:
            log_probs, own["future"] = _charged(log_probs, constraint, **own)
        log_probs = ops.where(allowed, log_probs, -INF)
        return log_probs, {**own, "model": model_state}

    return constrained_step


def _charged(
    log_probs: Tensor, rule: Constraint, constraint: State, future: State
) -> tuple[Tensor, State]:
    """Returns the log-probabilities with the change of the future cost, and its new state."""
    written, left = (ops.cast(words, "float32") for words in rule.progress(constraint))
    # As if there had been one more word, of one nat: the first ones tell little.
    price = (1.0 + future["entropy"][:, :1]) / (1.0 + written[:, :1])
    before = future["price"] * left
    after = price[..., None] * (left[..., None] - ops.cast(rule.writes_word, "float32"))
    entropy = future["entropy"] - ops.sum(ops.exp(log_probs) * log_probs, axis=-1)
    log_probs = log_probs + before[..., None] - after
    return log_probs, {"entropy": entropy, "price": ops.broadcast_to(price, ops.shape(left))}


# --- samples -------------------------------------------------------------------------------------


def choose(log_probs: Tensor, draw: Tensor, how: Sampling) -> Tensor:
    """Returns the drawn tokens, int32 (B, K).

    Args:
        log_probs: float32 (B, K, V), up to a constant; -INF is never drawn.
        draw: float32, broadcast to (B, K, 1): uniform in [0, 1).
        how: see `Sampling`.
    """
    size = log_probs.shape[-1]
    count = min(how.top_k, size) if how.top_k > 0 else size
    # No temperature allows forbidden tokens.
    ids, logits = None, log_probs / how.temperature
    logits = ops.where(log_probs > -INF / 2, logits, float("-inf"))
    if count < size or how.top_p < 1:
        logits, ids = ops.top_k(logits, count)  # the most probable first
    probs = ops.softmax(logits, axis=-1)
    if how.top_p < 1:
        before = ops.cumsum(probs, axis=-1) - probs
        probs = ops.where(before < how.top_p, probs, 0.0)
    sums = ops.cumsum(probs, axis=-1)
    reached = ops.logical_and(sums > draw * sums[..., -1:], probs > 0)
    chosen = ops.argmax(ops.cast(reached, "int32"), axis=-1)
    if ids is not None:
        chosen = ops.take_along_axis(ids, chosen[..., None], axis=-1)[..., 0]
    return ops.cast(chosen, "int32")


def sampled(step_fn: StepFn, numbers: Tensor, how: Sampling) -> StepFn:
    """Returns a step function that draws a token and allows only it.

    As tensor2tensor's sample_with_temperature (layers/common_layers.py), with a nucleus besides
    (Holtzman et al. 2020). One difference: tensor2tensor draws from one stream for a whole batch;
    here the random numbers of a sentence depend on the seed and the sentence alone, so that neither
    its neighbours nor its place in a file change its sample.

    Args:
        step_fn: returns log-probabilities (B, K, V), as the result does.
        numbers: float32 (B, L), the random number of each step.
        how: see `Sampling`.
    """
    last = ops.shape(numbers)[1] - 1

    def sampled_step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> Stepped:
        log_probs, state = step_fn(ids, parents, step, state)
        draw = ops.take(numbers, ops.minimum(step, last), axis=1)  # (B,)
        chosen = choose(log_probs, draw[:, None, None], how)
        tokens = ops.arange(log_probs.shape[-1], dtype="int32")
        return ops.where(ops.equal(tokens, chosen[..., None]), log_probs, -INF), state

    return sampled_step
