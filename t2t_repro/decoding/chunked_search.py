"""The search in chunks, for a backend that compiles each shape: there are few of them.

Room for tokens doubles each time. If each sentence stops by itself, finished ones leave the batch
once they are half of it.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.beam_search import CHUNK, Beams, Rules
from t2t_repro.decoding.program import few_row_counts
from t2t_repro.decoding.search import Sentences
from t2t_repro.decoding.steering import FILL, SearchProgram, SteeredModel
from t2t_repro.models.copies import DEFAULT_DEVICE
from t2t_repro.text.encoders import EOS_ID

_MANY_ROWS = 32  # beams of a batch from which on a layout of the weights pays for itself


class ChunkedSearch:
    """The compiled programs of a model under some rules, and the loop that calls them.

    Args:
        steered: the model.
        rules: see `Rules`.
    """

    def __init__(self, steered: SteeredModel, rules: Rules):
        self._model, self._rules = steered.model, rules
        self._start, self._advance = _Start(steered, rules), _Advance(steered, rules)

    def search(
        self, sentences: Sentences, alpha: float, device: str = DEFAULT_DEVICE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids int32 (B, K, L), L the steps that were taken, and scores float32 (B, K).

        All devices share a batch: `device` is DEFAULT_DEVICE.
        """
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

        start = _with_padding(sentences, 1 if self._model.sees_padding else 8)
        limits = start["limits"]
        fixed = {"alpha": np.asarray(alpha, "float32")}
        if batch * rules.beam_size >= _MANY_ROWS:
            fixed["layout"] = self._model.layout()
        memory, beams = self._start.run(start)
        while True:
            data = {**fixed, "memory": memory, "beams": tuple(beams), "limits": limits}
            beams, live = self._advance.run(data)
            beams, live = Beams(*beams), np.asarray(live)[: len(rows)]
            if not live.any():
                break
            if rules.per_sentence and few_row_counts(live.sum()) < len(limits):
                store(~live)
                kept, rows = np.flatnonzero(live).astype("int32"), rows[live]
                kept = np.append(kept, np.zeros(few_row_counts(len(kept)) - len(kept), "int32"))
                limits = np.where(np.arange(len(kept)) < len(rows), limits[kept], 0)
                limits = limits.astype("int32")
                # not compiled: each pair of sizes would be, by itself
                memory, beams = _take((memory, beams), kept)
        store(np.ones(len(rows), bool))
        return ids[:, :, : int(beams.step)], scores


def _take(values: Any, index: np.ndarray) -> Any:
    """Returns the rows `index` of all that has rows; the step of `Beams` has none."""
    return keras.tree.map_structure(
        lambda x: ops.take(x, index, axis=0) if len(x.shape) else x, values
    )


def _with_padding(sentences: Sentences, multiple: int) -> dict[str, Any]:
    """Returns the inputs of the search, sources padded to a multiple. Rows of limit 0 are
    inactive."""
    inputs, limits, facts = sentences.inputs, sentences.limits, dict(sentences.facts)
    rows, length = inputs.shape
    more = few_row_counts(rows) - rows
    inputs = np.pad(inputs, ((0, more), (0, -length % multiple)))
    inputs[rows:, :1] = EOS_ID
    for name, x in facts.items():
        widths = [(0, more), *((0, -size % 8) for size in x.shape[1:])]
        facts[name] = np.pad(x, widths, constant_values=FILL[name])
    return {"inputs": inputs, "facts": facts, "limits": np.pad(limits, (0, more))}


class _Start(SearchProgram):
    """What stays constant, and the fields of `Beams` at the start, without room yet."""

    def call(self, data):
        inputs, facts, limits = data["inputs"], data["facts"], data["limits"]
        batch, beams = ops.shape(inputs)[0], self.rules.beam_size
        memory, state = self.steered.start(inputs, facts, limits, batch, beams)
        return memory, tuple(beam_search.begin(state, batch, beams, 0))


class _Advance(SearchProgram):
    """Runs a chunk: returns `Beams`, and bool (B,), which are unfinished."""

    WHOLE = ("alpha", "layout")

    def call(self, data):
        memory, beams = data["memory"], Beams(*data["beams"])
        more = max(CHUNK, ops.shape(beams.alive_ids)[2])  # few lengths: 8, 16, 32, ...
        beams = beam_search.extend(beams, more, self.steered.make_room(beams.state, more))
        step = self.steered.step_fn(memory, data.get("layout"))
        beams, live = beam_search.advance(step, beams, data["limits"], data["alpha"], self.rules)
        return tuple(beams), live
