"""The model as an engine: here the search meets it, and for an export in interop/graph_search.py.

`decode` is tensor2tensor's: one length limit for the batch. The programs take `ModelEngine` with a
limit for each sentence, so that a translation does not depend on its neighbours.

Both are compiled by the backend, once for a family of shapes, and kept with the engine. The search
runs in stretches: room for the decoder's caches is made when it is needed, so that a generous limit
costs nothing; and sentences that are done leave the batch, as soon as they are a quarter of it.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.alignment import MostAttended, align
from t2t_repro.decoding.beam_search import Beams, Rules
from t2t_repro.decoding.engine import Ability, Engine, Pair, Search, Sentences, checked_inputs
from t2t_repro.decoding.pairs import LogProbs, run_pairs
from t2t_repro.decoding.program import Program, few_row_counts, static_shapes
from t2t_repro.decoding.shortlist import Candidates, among
from t2t_repro.decoding.steering import FILL, Steering
from t2t_repro.text.encoders import EOS_ID

STRETCH = 8  # tokens that room is made for at a time
_MANY_ROWS = 32  # beams of a batch from which on a layout of the weights pays for itself


def few_of(rows: Any) -> Any:
    """Returns how many of so many sentences may be left when those that are done leave a batch."""
    return rows * 3 // 4


def decode(
    model: keras.Model,
    inputs: Any,
    beam_size: int = 4,
    alpha: float = 0.6,
    decode_length: int = 50,
    top_beams: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Decodes a batch as tensor2tensor does.

    Args:
        model: a `Transformer`, or another `SequenceModel`.
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
    inputs = checked_inputs(inputs)
    limits = np.full(len(inputs), inputs.shape[1] + decode_length, "int32")
    search = Search(beam_size, alpha, top_beams, per_sentence=False)
    return engine_of(model).decode(Sentences(inputs, limits), search)


@functools.lru_cache(maxsize=2)
def engine_of(model: keras.Model) -> "ModelEngine":
    """Returns the engine of one of the last two models, whose programs are compiled once."""
    return ModelEngine(model)


class ModelEngine(Engine):
    """A model as an engine.

    Args:
        model: a `SequenceModel`, or an `Ensemble` of them.
        searches: how many threads share the sentences of a batch, where each stops by itself; see
            `program.share_cores`.
    """

    abilities = frozenset(Ability)

    def __init__(self, model: keras.Model, searches: int = 1):
        self.model, self.searches = model, searches
        self.learned_positions = getattr(model, "learned_positions", None)
        if not all(hasattr(m, "attention_weights") for m in getattr(model, "models", [model])):
            self.abilities = self.abilities - {Ability.ALIGNMENTS}
        if hasattr(model, "models"):  # each would need the probabilities that a sentence has alone
            self.abilities = self.abilities - {Ability.SHORTLIST}
        self._programs: dict[tuple[Rules, Steering, frozenset[str], bool], _Programs] = {}

    @property
    def fingerprint(self) -> str:
        """The digest of the weights as they stand."""
        digest = hashlib.sha256()
        for variable in self.model.weights:
            digest.update(variable.path.encode())
            digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
        return digest.hexdigest()

    @functools.cached_property
    def _log_probs(self) -> LogProbs:
        return LogProbs(self.model)

    @functools.cached_property
    def _most_attended(self) -> MostAttended:
        return MostAttended(self.model)

    def token_log_probs(
        self,
        pairs: list[Pair],
        batch_size: int = 0,
        progress: Callable[[int], None] = lambda count: None,
    ) -> list[np.ndarray]:
        return run_pairs(self._log_probs, pairs, batch_size, progress)

    def align(self, pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
        return align(self._most_attended, pairs, encoders)

    def _decode(self, sentences: Sentences, search: Search) -> tuple[np.ndarray, np.ndarray]:
        count, beam_size, top_beams = len(sentences), search.beam_size, search.top_beams
        if not count:
            return np.zeros((0, top_beams, 0), "int32"), np.zeros((0, top_beams), "float32")
        if self.learned_positions is not None:
            limits = np.minimum(sentences.limits, self.learned_positions)
            sentences = dataclasses.replace(sentences, limits=limits)
        rules = Rules(
            beam_size,
            greedy=beam_size == 1,
            stop_early=top_beams == 1,
            per_sentence=search.per_sentence,
            force_length=search.force_length,
            constrained=bool(sentences.facts),
            among=search.shortlist is not None,
        )
        whole = search.shortlist is None
        key = rules, search.steering, frozenset(sentences.facts), whole
        if key not in self._programs:
            self._programs[key] = _Programs(self.model, rules, search.steering)
        programs = self._programs[key]
        layout = self.model.layout() if whole and count * beam_size >= _MANY_ROWS else None
        parts = min(self.searches, count) if search.per_sentence else 1
        rows = [np.arange(part, count, parts) for part in range(parts)]

        def of_part(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            part = sentences.take(some)
            if search.shortlist is None:
                return programs.search(part, search.alpha, layout)
            found = Candidates.of(part, search.shortlist)
            places, scores = programs.search(found.sentences, search.alpha, None)
            return found.ids_of(places), scores

        if parts == 1:  # in the caller's thread: his strategy and his device are known there alone
            results = [of_part(rows[0])]
        else:
            with ThreadPoolExecutor(parts) as pool:
                results = list(pool.map(of_part, rows))
        steps = max(ids.shape[2] for ids, _ in results)
        ids = np.zeros((count, beam_size, steps), "int32")
        scores = np.zeros((count, beam_size), "float32")
        for some, (its_ids, its_scores) in zip(rows, results, strict=True):
            ids[some, :, : its_ids.shape[2]], scores[some] = its_ids, its_scores
        return ids[:, :top_beams], scores[:, :top_beams]


class _Programs:
    """The compiled programs of a model under some rules, and the loop that calls them."""

    def __init__(self, model: keras.Model, rules: Rules, steering: Steering):
        self._rules = rules
        self._start = _Start(model, rules, steering)
        # one with a layout and one without
        self._advance = {there: _Advance(model, rules, steering) for there in (False, True)}

    def search(
        self, sentences: Sentences, alpha: float, layout: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Runs the search in stretches. ids int32 (B, K, L) and scores float32 (B, K)."""
        rules, batch, most = self._rules, len(sentences), int(sentences.limits.max())
        ids = np.zeros((batch, rules.beam_size, most), "int32")
        scores = np.zeros((batch, rules.beam_size), "float32")
        rows = np.arange(batch)  # the sentence that each row of `beams` belongs to

        def store(which: np.ndarray) -> None:
            """Writes the results of the rows of `beams` for which bool (rows,) is true."""
            some_ids, some_scores = beam_search.result(beams, rules)
            some_ids = np.asarray(some_ids)[: len(rows), :, :most][which]
            ids[rows[which], :, : some_ids.shape[2]] = some_ids
            scores[rows[which]] = np.asarray(some_scores)[: len(rows)][which]

        start = _with_padding(sentences)
        limits = start["limits"]
        fixed = {"alpha": np.asarray(alpha, "float32"), "most": np.asarray(most, "int32")}
        if layout is not None:
            fixed["layout"] = layout
        memory, beams = self._start.run(start)
        kept = np.arange(batch, dtype="int32")
        while True:
            data = {**fixed, "memory": memory, "beams": tuple(beams), "limits": limits}
            if not static_shapes():
                few = few_of(len(limits)) if rules.per_sentence else 0
                data |= {"kept": kept, "few": np.asarray(few, "int32")}
            moved, beams, live = self._advance[layout is not None].run(data)
            memory, beams, live = moved or memory, Beams(*beams), np.asarray(live)[: len(rows)]
            if not live.any():
                break
            kept = np.arange(len(limits), dtype="int32")
            if rules.per_sentence and few_row_counts(live.sum()) < len(limits):
                store(~live)
                kept, rows = np.flatnonzero(live).astype("int32"), rows[live]
                kept = np.append(kept, np.zeros(few_row_counts(len(kept)) - len(kept), "int32"))
                limits = np.where(np.arange(len(kept)) < len(rows), limits[kept], 0)
                limits = limits.astype("int32")
                if static_shapes():  # by itself: each pair of sizes would be compiled
                    memory, beams = _take((memory, beams), kept)
        store(np.ones(len(rows), bool))
        return ids[:, :, : int(beams.step)], scores


def _take(values: Any, index: np.ndarray) -> Any:
    """The rows `index` of all that has rows; the step of `Beams` has none."""
    return keras.tree.map_structure(
        lambda x: ops.take(x, index, axis=0) if len(x.shape) else x, values
    )


def _with_padding(sentences: Sentences) -> dict[str, Any]:
    """What the search starts with; padded, where the backend compiles for each shape.

    Rows of limit 0 take no part.
    """
    inputs, limits, facts = sentences.inputs, sentences.limits, dict(sentences.facts)
    if static_shapes():
        rows, length = inputs.shape
        more = few_row_counts(rows) - rows
        inputs = np.pad(inputs, ((0, more), (0, -length % 8)))
        inputs[rows:, :1] = EOS_ID
        for name, x in facts.items():
            widths = [(0, more), *((0, -size % 8) for size in x.shape[1:])]
            facts[name] = np.pad(x, widths, constant_values=FILL[name])
        limits = np.pad(limits, (0, more))
    return {"inputs": inputs, "facts": facts, "limits": limits}


class _SearchProgram(Program):
    def __init__(self, model: keras.Model, rules: Rules, steering: Steering):
        super().__init__(model)
        self.rules, self.steering = rules, steering


class _Start(_SearchProgram):
    """What stays constant, and the fields of `Beams` at the start, without room yet."""

    def call(self, data):
        inputs, facts, limits = data["inputs"], data["facts"], data["limits"]
        batch, beams = ops.shape(inputs)[0], self.rules.beam_size
        state = self.model.initial_state(batch, beams)
        state = self.steering.initial_state(state, facts, limits, beams)
        memory = {"model": self.model.start_decoding(inputs), "facts": facts}
        if "candidates" in facts:
            memory["layout"] = self.model.layout(facts["candidates"])
        return memory, tuple(beam_search.begin(state, batch, beams, 0))


class _Advance(_SearchProgram):
    """A stretch of the sentences that are kept: memory, `Beams`, bool (B,): which are not done.

    The memory is empty where it is as it was.
    """

    def call(self, data):
        rules, limits, alpha = self.rules, data["limits"], data["alpha"]
        memory, beams = data["memory"], Beams(*data["beams"])
        room = ops.shape(beams.alive_ids)[2]
        if static_shapes():  # few lengths: 8, 16, 32, ...
            more = max(STRETCH, room)
        else:
            memory, beams = _take((memory, beams), data["kept"])
            more = ops.minimum(STRETCH, data["most"] - room)
            more = ops.where(beams.step < room, 0, more)
        state = self.steering.with_room(beams.state, lambda s: self.model.make_room(s, more))
        beams = beam_search.extend(beams, more, state)

        def step(ids, parents, step, state):
            own, layout = memory["model"], memory.get("layout", data.get("layout"))
            return self.model.decode_step(ids, parents, step, state, own, layout)

        facts = dict(memory["facts"])
        if "candidates" in facts:
            step = among(step, facts.pop("candidates"), facts.pop("allowed"))
        step = self.steering.steer(step, facts)
        beams, live = beam_search.advance(step, beams, limits, alpha, rules, data.get("few", 0))
        return {} if static_shapes() else memory, tuple(beams), live
