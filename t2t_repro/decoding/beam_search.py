"""Beam search and greedy search, as tensor2tensor does them; they know no model.

The search talks to a model through one function,

    step_fn(ids (B, K), parents (B, K), step, state) -> (logits (B, K, V), state)

where `ids` are the tokens of the step before (0 at step 0) and `parents` says which of that step's
beams each of them continues. The search passes `state` on unchanged. The function itself moves what
belongs to a beam by `parents` (see `gather_beams`), or remembers them, as models/transformer.py
does, so that no cache is ever moved. Legend: B batch, K beams, V vocabulary, L tokens with room.

The search runs in chunks, so that room for tokens is made only when needed: `begin`, then `extend`
and `advance` as long as a sentence is `unfinished`, and `result`.

The rules, all of them tensor2tensor's: the 2K best continuations of the K living beams are taken,
so that K living ones remain even if K of them end; a hypothesis of n tokens (its end included)
scores log_prob / ((5 + n) / 6) ** alpha; the search stops when no living beam can still beat the
finished ones, or at the limit; a sentence for which nothing has finished yields its living beams,
with log-probabilities that are not normalised by length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras import ops

from t2t_repro.layers.kernels import gather_beams
from t2t_repro.text.encoders import EOS_ID

INF = 1e7  # tensor2tensor's: stands for minus infinity where sums must stay finite
CHUNK = 8  # tokens for which room is made at a time
GROUP = 64  # neighbours in the vocabulary of which the largest is looked for first

Tensor = Any
State = Any
StepFn = Callable[[Tensor, Tensor, Tensor, State], tuple[Tensor, State]]


@dataclass(frozen=True)
class Rules:
    """What is fixed while a search runs.

    beam_size: K.
    greedy: take the most probable token at every step (K must be 1); scores are sums of log-probs.
    stop_early: stop when the best hypothesis is certain; otherwise when all K are.
    per_sentence: each sentence stops by itself. Otherwise all continue until all may stop, as in
        tensor2tensor, so that a sentence's later hypotheses depend on its neighbours.
    force_length: greedy search continues after the end of a sentence, up to its limit; what follows
        the end does not count in the score.
    constrained: the step function returns log-probabilities, -INF for tokens that are forbidden; no
        hypothesis that holds one counts as ended. See decoding/steering.py.
    """

    beam_size: int
    greedy: bool = False
    stop_early: bool = True
    per_sentence: bool = False
    force_length: bool = False
    constrained: bool = False


class Beams(NamedTuple):
    """Where a search stands: the state of its loop."""

    step: Tensor  # int32 (): tokens produced so far
    last_ids: Tensor  # int32 (B, K): the living beams' latest tokens
    parents: Tensor  # int32 (B, K): the beams of the step before which they continue
    alive_ids: Tensor  # int32 (B, K, L): living beams, best first
    alive_log_probs: Tensor  # float32 (B, K)
    finished_ids: Tensor  # int32 (B, K, L): ended hypotheses, best first; fillers behind them
    finished_scores: Tensor  # float32 (B, K): -INF and below at fillers
    finished_flags: Tensor  # bool (B, K): False at fillers
    state: State  # the step function's own


def begin(initial_state: State, batch_size: Tensor, beam_size: int, length: Tensor) -> Beams:
    """Returns the start: one living beam of log-prob 0 a sentence, and room for `length` tokens."""
    shape = (batch_size, beam_size)
    first = ops.equal(ops.arange(beam_size), 0)
    return Beams(
        step=ops.zeros((), dtype="int32"),
        last_ids=ops.zeros(shape, dtype="int32"),
        parents=ops.zeros(shape, dtype="int32"),
        alive_ids=ops.zeros((*shape, length), dtype="int32"),
        alive_log_probs=ops.broadcast_to(ops.where(first, 0.0, -INF), shape),
        finished_ids=ops.zeros((*shape, length), dtype="int32"),
        finished_scores=ops.zeros(shape, dtype="float32") - INF,
        finished_flags=ops.zeros(shape, dtype="bool"),
        state=initial_state,
    )


def advance(
    step_fn: StepFn,
    beams: Beams,
    limits: Tensor,
    alpha: Tensor,
    rules: Rules,
    few: Tensor | int = 0,
) -> tuple[Beams, Tensor]:
    """Searches until the room in `beams` is used up, or as few sentences as `few` are unfinished.

    Args:
        step_fn: see the module's docstring.
        beams: where the search stands.
        limits: int32 (B,), how many tokens each sentence may have. A row of limit 0 takes no part.
        alpha: exponent of the length penalty, a scalar or one for each sentence (B,).
        rules: see `Rules`.
        few: int32 scalar.

    Returns:
        (where the search stands then, `unfinished` of it).
    """
    alpha = ops.cast(alpha, "float32")
    grow = _grow_greedily if rules.greedy else _grow
    room = ops.shape(beams.alive_ids)[2]

    def goes_on(beams: Beams, live: Tensor) -> Tensor:
        count = ops.sum(ops.cast(live, "int32"))
        return ops.logical_and(ops.less(beams.step, room), ops.greater(count, few))

    def body(beams: Beams, live: Tensor) -> tuple[Beams, Tensor]:
        logits, state = step_fn(beams.last_ids, beams.parents, beams.step, beams.state)
        grown = grow(beams, ops.cast(logits, "float32"), state, alpha, rules)
        if rules.per_sentence or rules.greedy:
            grown = _freeze(beams, grown, live)
        return grown, unfinished(grown, limits, alpha, rules)

    return ops.while_loop(goes_on, body, (beams, unfinished(beams, limits, alpha, rules)))


def unfinished(beams: Beams, limits: Tensor, alpha: Tensor, rules: Rules) -> Tensor:
    """Returns bool (B,): the sentences that another step could still change."""
    within = ops.less(beams.step, limits)
    if rules.greedy and rules.force_length:
        return within
    if rules.greedy:
        return ops.logical_and(within, ops.logical_not(beams.finished_flags[:, 0]))
    # The best score that the best living beam can still reach, if all further tokens are certain.
    ceiling = beams.alive_log_probs[:, 0] / length_penalty(limits, alpha)
    if rules.stop_early:
        floor = ops.max(beams.finished_scores, axis=1)
    else:
        floor = ops.min(beams.finished_scores, axis=1)
    idle = ops.equal(limits, 0)
    if rules.per_sentence:
        return ops.logical_and(within, ops.less_equal(floor, ceiling))
    if not rules.stop_early:
        floor = ops.min(ops.where(idle, INF, floor))
    settled = ops.all(ops.logical_or(idle, ops.greater(floor, ceiling)))
    return ops.logical_and(within, ops.logical_not(settled))


def length_penalty(length: Tensor, alpha: Tensor) -> Tensor:
    """Returns ((5 + length) / 6) ** alpha, in float32."""
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def extend(beams: Beams, more: Tensor, state: State) -> Beams:
    """Returns the search with room for `more` more tokens, and a state with as much room."""
    room = [(0, 0), (0, 0), (0, more)]
    return beams._replace(
        alive_ids=ops.pad(beams.alive_ids, room),
        finished_ids=ops.pad(beams.finished_ids, room),
        state=state,
    )


def result(beams: Beams, rules: Rules) -> tuple[Tensor, Tensor]:
    """Returns ids (B, K, L) and scores (B, K); the living beams where nothing has finished.

    The ids are 0 after the end of a sentence, unless the rules force the length.
    """
    any_finished = ops.any(beams.finished_flags, axis=1, keepdims=True)
    ids = ops.where(any_finished[..., None], beams.finished_ids, beams.alive_ids)
    scores = ops.where(any_finished, beams.finished_scores, beams.alive_log_probs)
    if rules.force_length:
        return ids, scores
    ends = ops.cast(ops.equal(ids, EOS_ID), "int32")
    after_end = ops.cumsum(ends, axis=2) - ends > 0
    return ops.where(after_end, 0, ids), scores


def _grow(beams: Beams, logits: Tensor, state: State, alpha: Tensor, rules: Rules) -> Beams:
    """Makes one step of beam search."""
    beam_size = rules.beam_size
    penalty = ops.reshape(length_penalty(beams.step + 1, alpha), (-1, 1))
    scores, origin, ids = _best(logits, beams.alive_log_probs, penalty, 2 * beam_size, rules)
    log_probs = scores * penalty
    ended = ops.equal(ids, EOS_ID)
    if rules.constrained:  # forbidden ones only fill the beams, below all others
        ended = ops.logical_and(ended, log_probs > -INF / 2)
        log_probs = ops.maximum(log_probs, -INF)
        scores = log_probs / penalty
    sequences = _write(gather_beams(beams.alive_ids, origin), ids, beams.step)

    # The best K that continue; forbidden ones before ended ones.
    minus = ops.cast(ended, "float32") * (-2 * INF if rules.constrained else -INF)
    best = ops.top_k(scores + minus, beam_size)[1]  # (B, K), into the 2K
    parents = gather_beams(origin, best)

    # The best K ended ones, now or before.
    minus = (1.0 - ops.cast(ended, "float32")) * -INF
    all_scores = ops.concatenate([beams.finished_scores, scores + minus], axis=1)  # (B, 3K)
    all_ids = ops.concatenate([beams.finished_ids, sequences], axis=1)
    all_flags = ops.concatenate([beams.finished_flags, ended], axis=1)
    finished_scores, kept = ops.top_k(all_scores, beam_size)
    return Beams(
        step=beams.step + 1,
        last_ids=gather_beams(ids, best),
        parents=ops.cast(parents, "int32"),
        alive_ids=gather_beams(sequences, best),
        alive_log_probs=gather_beams(log_probs, best),
        finished_ids=gather_beams(all_ids, kept),
        finished_scores=finished_scores,
        finished_flags=gather_beams(all_flags, kept),
        state=state,
    )


def _grow_greedily(
    beams: Beams, logits: Tensor, state: State, alpha: Tensor, rules: Rules
) -> Beams:
    """Makes one step of greedy search: the single living beam takes its most probable token."""
    del alpha
    before = ops.zeros_like(beams.alive_log_probs)
    log_prob, _, ids = _best(logits, before, ops.ones((1, 1)), 1, rules)  # (B, 1)
    sequences = _write(beams.alive_ids, ids, beams.step)
    # Only with a forced length is anything added after an end; it does not count.
    total = beams.alive_log_probs + ops.where(beams.finished_flags, 0.0, log_prob)
    ended = ops.logical_or(beams.finished_flags, ops.equal(ids, EOS_ID))
    return Beams(
        step=beams.step + 1,
        last_ids=ids,
        parents=beams.parents,
        alive_ids=sequences,
        alive_log_probs=total,
        finished_ids=sequences,
        finished_scores=total,
        finished_flags=ended,
        state=state,
    )


def _best(
    logits: Tensor, before: Tensor, penalty: Tensor, count: int, rules: Rules
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the `count` best continuations of a sentence's beams, best first.

    They are in the `count` groups of neighbours whose best members are the best: TensorFlow finds
    these and looks through them in a tenth of the time that it takes for all. Ties fall to the
    first beam and the lowest id, as they would without this.

    Args:
        logits: (B, K, V).
        before: (B, K), log-probs of the beams.
        penalty: (B, 1) or (1, 1), what divides a log-prob.
        count: C.
        rules: see `Rules`.

    Returns:
        (scores (B, C), int32 (B, C): which beams they continue, int32 (B, C): by which ids).
    """
    beams, vocab_size = rules.beam_size, logits.shape[2]
    members = max(1, min(GROUP, beams * vocab_size // count))
    grouped = _in_groups(logits, beams, members)  # (B, K, G, members)
    groups = ops.shape(grouped)[2]
    largest = ops.max(grouped, axis=3)
    normalizer = _normalizer(grouped, largest, rules)  # (B, K)

    def scored(logits: Tensor, normalizer: Tensor, before: Tensor) -> Tensor:
        return ((logits - normalizer[..., None]) + before[..., None]) / penalty[..., None]

    # (B, K, G) -> (B, K * G)
    best = ops.reshape(scored(largest, normalizer, before), (-1, beams * groups))
    # in order, so that ties fall to the first
    group = ops.cast(ops.sort(ops.top_k(best, count)[1], axis=1), "int32")  # (B, C)
    origin = group // groups
    candidates = scored(
        gather_beams(ops.reshape(grouped, (-1, beams * groups, members)), group),
        gather_beams(normalizer, origin),
        gather_beams(before, origin),
    )  # (B, C, members)
    scores, place = ops.top_k(ops.reshape(candidates, (-1, count * members)), count)
    place = ops.cast(place, "int32")
    chosen, member = place // members, place % members
    ids = gather_beams(group % groups, chosen) * members + member
    return scores, gather_beams(origin, chosen), ids


def _in_groups(logits: Tensor, beams: int, members: int) -> Tensor:
    """Maps (B, K, V) to (B, K, groups, members), filled up with minus infinity."""
    groups = -(-ops.shape(logits)[2] // members)
    if fill := groups * members - logits.shape[2]:
        logits = ops.pad(logits, ((0, 0), (0, 0), (0, fill)), constant_values=float("-inf"))
    return ops.reshape(logits, (-1, beams, groups, members))


def _normalizer(grouped: Tensor, largest: Tensor, rules: Rules) -> Tensor:
    """Returns (B, K), the normalizer of logits (B, K, G, members) with maxima `largest` (B, K,
    G)."""
    if rules.constrained:  # they are log-probabilities already
        return ops.zeros_like(largest[..., 0])
    _, beams, groups, members = ops.shape(grouped)
    softmax = ops.softmax(ops.reshape(grouped, (-1, beams, groups * members)), axis=2)
    # The probability of the largest cannot underflow.
    there = ops.reshape(ops.argmax(largest, axis=2), (-1, 1))
    of_groups = ops.reshape(softmax, (-1, groups, members))
    probability = ops.max(gather_beams(of_groups, there), axis=(1, 2))
    return ops.max(largest, axis=2) - ops.log(ops.reshape(probability, (-1, beams)))


def _freeze(old: Beams, new: Beams, live: Tensor) -> Beams:
    """Returns `new` where a sentence is live, else `old` (there the state no longer matters)."""
    kept = {}
    for name in Beams._fields:
        if name not in ("step", "state"):
            before, after = getattr(old, name), getattr(new, name)
            mask = ops.reshape(live, (-1,) + (1,) * (len(after.shape) - 1))
            kept[name] = ops.where(mask, after, before)
    return new._replace(**kept)


def _write(sequences: Tensor, ids: Tensor, step: Tensor) -> Tensor:
    """Returns (B, K, L) with `ids` (B, K) written at `step`."""
    here = ops.equal(ops.arange(ops.shape(sequences)[2], dtype="int32"), step)
    return ops.where(here, ids[..., None], sequences)
