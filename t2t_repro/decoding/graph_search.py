"""The search as one TensorFlow graph, for any batch and any length: of engines and of exports."""

import numpy as np
import tensorflow as tf

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.beam_search import CHUNK, Beams, Rules
from t2t_repro.decoding.search import Sentences
from t2t_repro.decoding.steering import SearchProgram, SentenceInputs, SteeredModel
from t2t_repro.models.copies import DEFAULT_DEVICE


class GraphSearch(SearchProgram):
    """`search` under some rules; several threads may run it."""

    def search(
        self, sentences: Sentences, alpha: float, device: str = DEFAULT_DEVICE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids int32 (B, K, L), L the steps that were taken, and scores float32 (B, K)."""
        data = {
            "inputs": sentences.inputs,
            "limits": sentences.limits,
            "alpha": np.asarray(alpha, "float32"),
            "facts": dict(sentences.facts),
        }
        ids, scores, steps = self.run(data, device)
        return ids.numpy()[:, :, : int(steps)], scores.numpy()

    def call(self, data):
        return search(self.steered, rules=self.rules, **data)


def search(
    steered: SteeredModel,
    inputs: tf.Tensor,
    limits: tf.Tensor,
    alpha: tf.Tensor,
    rules: Rules,
    facts: SentenceInputs | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the beams of a batch.

    Room for tokens is made in chunks, so that a generous limit costs nothing. If each sentence
    stops by itself, finished ones leave the batch once they are a quarter of it.

    Args:
        steered: the model.
        inputs: int32 (B, S), padded with 0.
        limits: int32 (B,): the most tokens that each sentence may have; 0: no beam of it has any.
        alpha: float32, the exponent of the length penalty: a scalar, or of each sentence (B,).
        rules: see `Rules`.
        facts: the inputs of constraints, prefixes and samples, tensors (B, ...).

    Returns:
        ids int32 (B, K, L), L the largest limit, at least 1, scores float32 (B, K), and int32 (),
        the steps that were taken.
    """
    facts = facts or {}
    batch, beam_size = tf.shape(inputs)[0], rules.beam_size
    most = tf.reduce_max(tf.concat([limits, [1]], 0))
    memory, state = steered.start(inputs, facts, limits, batch, beam_size)
    layout = steered.model.layout()

    def chunk(rows, limits, alpha, memory, beams, all_ids, all_scores):
        beams = Beams(*beams)
        room = tf.shape(beams.alive_ids)[2]
        more = tf.where(beams.step < room, 0, tf.minimum(CHUNK, most - room))
        room = room + more
        beams = beam_search.extend(beams, more, steered.make_room(beams.state, more))
        step = steered.step_fn(memory, layout)
        few = tf.size(rows) * 3 // 4 if rules.per_sentence else 0
        beams, live = beam_search.advance(step, beams, limits, alpha, rules, few)
        ids, scores = beam_search.result(beams, rules)
        ids = tf.pad(ids, [[0, 0], [0, 0], [0, most - room]])
        all_ids = tf.tensor_scatter_nd_update(all_ids, rows[:, None], ids)
        all_scores = tf.tensor_scatter_nd_update(all_scores, rows[:, None], scores)
        if not rules.per_sentence:  # all go on, or none
            live = tf.fill(tf.shape(live), tf.reduce_any(live))
        live = tf.where(live)[:, 0]
        rows, limits, alpha, memory, beams = tf.nest.map_structure(
            lambda x: tf.gather(x, live) if x.shape.rank else x,
            (rows, limits, alpha, memory, tuple(beams)),
        )
        return rows, limits, alpha, memory, beams, all_ids, all_scores

    start = (
        *(tf.range(batch), limits, alpha, memory),
        tuple(beam_search.begin(state, batch, beam_size, 0)),
        tf.zeros([batch, beam_size, most], tf.int32),
        tf.zeros([batch, beam_size], tf.float32),
    )
    *_, beams, ids, scores = tf.while_loop(
        lambda rows, *rest: tf.size(rows) > 0,
        chunk,
        start,
        shape_invariants=tf.nest.map_structure(
            lambda x: tf.TensorShape([size or None for size in x.shape]), start
        ),
    )
    return ids, scores, Beams(*beams).step
