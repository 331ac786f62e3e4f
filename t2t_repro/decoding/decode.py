"""Decoding with a model: the one place where the search and the model meet.

`decode` is tensor2tensor's: one length limit for the batch. `decode_batch` is what the programs
call: a limit for each sentence, so that a translation does not depend on its neighbours.

Both are compiled by the backend, once for a family of shapes, and kept with the model. The search
runs in stretches: room for the decoder's caches is made when it is needed, so that a generous limit
costs nothing; and sentences that are done leave the batch.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.beam_search import Beams, Rules
from t2t_repro.decoding.program import Program, few_row_counts, static_shapes
from t2t_repro.decoding.steering import FILL, UNSTEERED, Steering
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import EOS_ID

STRETCH = 8  # tokens that room is made for at a time
_MANY_ROWS = 32  # beams of a batch from which on a layout of the weights pays for itself


def decode(
    model: keras.Model,
    inputs: Any,
    beam_size: int = 4,
    alpha: float = 0.6,
    decode_length: int = 50,
    top_beams: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Decode a batch as tensor2tensor does.

    Args:
        model: a `Transformer`.
        inputs: int32 (B, S), padded with 0.
        beam_size: 1 is greedy search.
        alpha: exponent of the length penalty.
        decode_length: at most S + decode_length tokens, with S the padded length.
        top_beams: how many hypotheses to return. With 1 the search stops as soon as it is certain.

    Returns:
        ids int32 (B, K, L), K = top_beams and L the steps that were taken: they end at the first 1
        and are padded with 0. scores float32 (B, K): log-probabilities divided by the length
        penalty; greedy search does not divide.
    """
    inputs = _checked_inputs(inputs)
    limits = np.full(len(inputs), inputs.shape[1] + decode_length, "int32")
    return decode_batch(
        model, inputs, limits, beam_size, alpha, top_beams=top_beams, per_sentence=False
    )


def decode_batch(
    model: keras.Model,
    inputs: Any,
    limits: Any,
    beam_size: int = 4,
    alpha: float = 0.6,
    *,
    top_beams: int = 1,
    per_sentence: bool = True,
    force_length: bool = False,
    steering: Steering = UNSTEERED,
    facts: Mapping[str, np.ndarray] | None = None,
    searches: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Decode a batch with a limit for each sentence.

    Args:
        model: a `Transformer`.
        inputs: int32 (B, S), padded with 0.
        limits: int32 (B,): the most tokens that each sentence may have. Learned positions end
            before that where there are fewer of them.
        beam_size: 1 is greedy search.
        alpha: exponent of the length penalty.
        top_beams: how many hypotheses to return.
        per_sentence: each sentence stops by itself; if not, all stop together, as in tensor2tensor.
        force_length: greedy search goes on to the limit, and the ids behind the end are returned.
        steering: a constraint of what may be written; how to draw samples (with beam_size=1).
        facts: what `steering` must know of the sentences, and the tokens that they begin with, and
            how many they have at least: see decoding/steering.py.
        searches: how many threads share the sentences, where each stops by itself; see
            `program.share_cores`.

    Returns:
        As `decode`.
    """
    inputs = _checked_inputs(inputs)
    limits = np.asarray(limits, "int32")
    if beam_size < 1 or not 1 <= top_beams <= beam_size:
        raise UserError(
            "decode expects 1 <= top_beams <= beam_size. "
            f"Received: beam_size={beam_size}, top_beams={top_beams}. Give a larger beam_size."
        )
    if limits.shape != inputs.shape[:1] or (limits < 1).any():
        raise UserError(
            "decode expects a positive number of tokens as the limit of each sentence. "
            f"Received: {limits.tolist()} for {len(inputs)} sentences. Give a larger decode_length."
        )
    most = getattr(model, "learned_positions", None)
    if most is not None:
        limits = np.minimum(limits, most)
    greedy = beam_size == 1
    if force_length and not greedy:
        raise UserError(
            "decode_batch expects beam_size=1 where it forces the length. "
            f"Received: beam_size={beam_size}. Leave force_length out."
        )
    if steering.sampling and not greedy:
        raise UserError(
            "decode_batch expects beam_size=1 where it draws samples. "
            f"Received: beam_size={beam_size}. Leave sampling out."
        )
    rules = Rules(
        beam_size,
        greedy,
        top_beams == 1,
        per_sentence,
        force_length=force_length,
        constrained=bool(facts),
    )
    if not len(inputs):
        return np.zeros((0, top_beams, 0), "int32"), np.zeros((0, top_beams), "float32")
    facts = dict(facts or {})
    programs = _programs(model, rules, steering, facts)
    many = len(inputs) * beam_size >= _MANY_ROWS
    layout = programs.layout() if many else None
    parts = min(searches, len(inputs)) if per_sentence else 1
    rows = [np.arange(part, len(inputs), parts) for part in range(parts)]

    def search(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = {name: x[some] for name, x in facts.items()}
        return _search(programs, inputs[some], limits[some], own, alpha, layout)

    if parts == 1:  # in the caller's thread: his strategy and his device are known there alone
        found = [search(rows[0])]
    else:
        with ThreadPoolExecutor(parts) as pool:
            found = list(pool.map(search, rows))
    steps = max(ids.shape[2] for ids, _ in found)
    ids = np.zeros((len(inputs), beam_size, steps), "int32")
    scores = np.zeros((len(inputs), beam_size), "float32")
    for some, (its_ids, its_scores) in zip(rows, found, strict=True):
        ids[some, :, : its_ids.shape[2]], scores[some] = its_ids, its_scores
    return ids[:, :top_beams], scores[:, :top_beams]


def _checked_inputs(inputs: Any) -> np.ndarray:
    inputs = np.asarray(inputs)
    if inputs.ndim != 2 or not (np.issubdtype(inputs.dtype, np.integer) or inputs.size == 0):
        raise UserError(
            "decode expects inputs of shape (batch, length) and an integer type. "
            f"Received: shape {inputs.shape}, {inputs.dtype}. Pad the sentences with 0 and stack."
        )
    return inputs.astype("int32")


def _search(
    programs: "_Programs",
    inputs: np.ndarray,
    limits: np.ndarray,
    facts: dict[str, np.ndarray],
    alpha: float,
    layout: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Run the search in stretches. ids (B, K, L) and scores (B, K)."""
    rules, batch, most = programs.rules, len(inputs), int(limits.max())
    ids = np.zeros((batch, rules.beam_size, most), "int32")
    scores = np.zeros((batch, rules.beam_size), "float32")
    rows = np.arange(batch)  # the sentence that each row of `beams` belongs to
    inputs, limits, facts = _pad_rows(inputs, limits, facts)
    alpha_array = np.asarray(alpha, "float32")
    memory, beams = programs.start(inputs, facts, limits)
    while True:
        more = _more_room(ops.shape(beams.alive_ids)[2], most)
        beams, live = programs.advance(memory, layout, beams, limits, alpha_array, more)
        live = np.asarray(live)[: len(rows)]
        if not live.any():
            break
        if rules.per_sentence and few_row_counts(live.sum()) < len(limits):
            _store(beams, rows[~live], np.flatnonzero(~live), ids, scores, rules)
            index = np.flatnonzero(live)
            rows = rows[live]
            index = np.append(index, np.zeros(few_row_counts(len(index)) - len(index), "int32"))
            memory, beams = _take((memory, beams), index.astype("int32"))
            limits = np.where(np.arange(len(index)) < len(rows), limits[index], 0).astype("int32")
    _store(beams, rows, np.arange(len(rows)), ids, scores, rules)
    return ids[:, :, : int(beams.step)], scores


def _store(
    beams: Beams,
    rows: np.ndarray,
    index: np.ndarray,
    ids: np.ndarray,
    scores: np.ndarray,
    rules: Rules,
) -> None:
    """Write the results of `beams` at `index` into the rows `rows` of `ids` and `scores`."""
    some_ids, some_scores = beam_search.result(beams, rules)
    some_ids = np.asarray(some_ids)[index, :, : ids.shape[2]]
    ids[rows, :, : some_ids.shape[2]] = some_ids
    scores[rows] = np.asarray(some_scores)[index]


def _take(values: Any, index: np.ndarray) -> Any:
    """The rows `index` of all that has rows; the step of `Beams` has none."""
    return keras.tree.map_structure(
        lambda x: ops.take(x, index, axis=0) if len(x.shape) else x, values
    )


def _more_room(room: int, most: int) -> int:
    """How many tokens to make room for, where there was room for `room` and `most` can come."""
    if static_shapes():
        return max(STRETCH, room)
    return min(STRETCH, most - room)


def _pad_rows(
    inputs: np.ndarray, limits: np.ndarray, facts: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Add padding where the backend compiles for each shape; rows of limit 0 take no part."""
    if not static_shapes():
        return inputs, limits, facts
    rows, length = inputs.shape
    more = few_row_counts(rows) - rows
    inputs = np.pad(inputs, ((0, more), (0, -length % 8)))
    inputs[rows:, :1] = EOS_ID
    padded = {}
    for name, x in facts.items():
        widths = [(0, more), *((0, -size % 8) for size in x.shape[1:])]
        padded[name] = np.pad(x, widths, constant_values=FILL[name])
    return inputs, np.pad(limits, (0, more)), padded


class _Programs:
    """The two compiled programs of a model under some rules."""

    def __init__(self, model: keras.Model, rules: Rules, steering: Steering):
        self._model, self.rules = model, rules
        self._start = _Start(model, rules, steering)
        # one with a layout and one without
        self._advance = {there: _Advance(model, rules, steering) for there in (False, True)}

    def layout(self) -> Any:
        """What the model lays out for many steps."""
        return self._model.layout()

    def start(
        self, inputs: np.ndarray, facts: dict[str, np.ndarray], limits: np.ndarray
    ) -> tuple[Any, Beams]:
        """What stays constant, and the search at its start, without room yet."""
        memory, beams = self._start.run({"inputs": inputs, "facts": facts, "limits": limits})
        return memory, Beams(*beams)

    def advance(
        self,
        memory: Any,
        layout: Any,
        beams: Beams,
        limits: np.ndarray,
        alpha: np.ndarray,
        more: int,
    ) -> tuple[Beams, Any]:
        """The search after at most `more` steps more, and which sentences are not done."""
        data = {"memory": memory, "beams": tuple(beams), "limits": limits, "alpha": alpha}
        if layout is not None:
            data["layout"] = layout
        program = self._advance[layout is not None]
        beams, live = program.run({**data, "more": np.zeros(more, "int32")})
        return Beams(*beams), live


class _SearchProgram(Program):
    def __init__(self, model: keras.Model, rules: Rules, steering: Steering):
        super().__init__(model)
        self.rules, self.steering = rules, steering


class _Start(_SearchProgram):
    def call(self, data):
        inputs, facts, limits = data["inputs"], data["facts"], data["limits"]
        batch, beams = ops.shape(inputs)[0], self.rules.beam_size
        state = self.model.initial_state(batch, beams)
        state = self.steering.initial_state(state, facts, limits, beams)
        memory = {"model": self.model.start_decoding(inputs), "facts": facts}
        return memory, tuple(beam_search.begin(state, batch, beams, 0))


class _Advance(_SearchProgram):
    def call(self, data):
        rules, limits, alpha = self.rules, data["limits"], data["alpha"]
        more, memory = ops.shape(data["more"])[0], data["memory"]
        beams = Beams(*data["beams"])
        state = self.steering.with_room(beams.state, lambda s: self.model.make_room(s, more))
        beams = beam_search.extend(beams, more, state)

        def step(ids, parents, step, state):
            own, layout = memory["model"], data.get("layout")
            return self.model.decode_step(ids, parents, step, state, own, layout)

        step = self.steering.steer(step, memory["facts"])
        room = ops.shape(beams.alive_ids)[2]
        beams = beam_search.advance(step, beams, limits, alpha, room, rules)
        return tuple(beams), beam_search.unfinished(beams, limits, alpha, rules)


class _Kept:
    """Holds programs as an attribute of a model, in a form that Keras neither tracks nor saves."""

    def __init__(self):
        self.programs: dict[tuple[Rules, Steering, frozenset[str]], _Programs] = {}


def _programs(
    model: keras.Model, rules: Rules, steering: Steering, facts: Mapping[str, np.ndarray]
) -> _Programs:
    if not hasattr(model, "_decoding_programs"):
        model._decoding_programs = _Kept()
    kept, key = model._decoding_programs.programs, (rules, steering, frozenset(facts))
    if key not in kept:
        kept[key] = _Programs(model, rules, steering)
    return kept[key]
