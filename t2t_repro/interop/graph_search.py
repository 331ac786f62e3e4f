"""The search of decoding/decode.py as one TensorFlow graph, for any batch and any length."""

import keras
import tensorflow as tf

from t2t_repro.decoding import beam_search
from t2t_repro.decoding.beam_search import Beams, Rules
from t2t_repro.decoding.decode import STRETCH, few_of
from t2t_repro.decoding.shortlist import among
from t2t_repro.interop.graph_shortlist import candidates
from t2t_repro.text.shortlist import Shortlist


def search(
    model: keras.Model,
    inputs: tf.Tensor,
    limits: tf.Tensor,
    alpha: tf.Tensor,
    rules: Rules,
    shortlist: Shortlist | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the beams of a batch.

    Room for tokens is made in stretches, and sentences that are done leave the batch.

    Args:
        model: a `Transformer`.
        inputs: int32 (B, S), padded with 0.
        limits: int32 (B,): the most tokens that each sentence may have; 0: no beam of it has any.
        alpha: float32 (B,): the exponent of each sentence's length penalty.
        rules: see `Rules`; each sentence stops by itself.
        shortlist: the candidates that are searched; None: the whole vocabulary.

    Returns:
        ids int32 (B, K, L), L the largest limit, at least 1, and scores float32 (B, K).
    """
    batch, beam_size = tf.shape(inputs)[0], rules.beam_size
    most = tf.maximum(tf.reduce_max(tf.concat([limits, [1]], 0)), 1)
    memory = {"model": model.start_decoding(inputs)}
    if shortlist:
        found = candidates(shortlist, inputs)
        memory |= {"among": found, "layout": model.layout(found.ids)}
    whole = None if shortlist else model.layout()

    def stretch(rows, limits, alpha, memory, beams, all_ids, all_scores):
        beams = Beams(*beams)
        room = tf.shape(beams.alive_ids)[2]
        more = tf.where(beams.step < room, 0, tf.minimum(STRETCH, most - room))
        room = room + more
        beams = beam_search.extend(beams, more, model.make_room(beams.state, more))

        def step(ids, parents, position, state):
            own, layout = memory["model"], memory.get("layout", whole)
            return model.decode_step(ids, parents, position, state, own, layout)

        if shortlist:
            step = among(step, *memory["among"])
        few = few_of(tf.size(rows))
        beams, live = beam_search.advance(step, beams, limits, alpha, rules, few)
        ids, scores = beam_search.result(beams, rules)
        ids = tf.pad(ids, [[0, 0], [0, 0], [0, most - room]])
        all_ids = tf.tensor_scatter_nd_update(all_ids, rows[:, None], ids)
        all_scores = tf.tensor_scatter_nd_update(all_scores, rows[:, None], scores)
        live = tf.where(live)[:, 0]
        rows, limits, alpha, memory, beams = tf.nest.map_structure(
            lambda x: tf.gather(x, live) if x.shape.rank else x,
            (rows, limits, alpha, memory, tuple(beams)),
        )
        return rows, limits, alpha, memory, beams, all_ids, all_scores

    state = model.initial_state(batch, beam_size)
    start = (
        *(tf.range(batch), limits, alpha, memory),
        tuple(beam_search.begin(state, batch, beam_size, 0)),
        tf.zeros([batch, beam_size, most], tf.int32),
        tf.zeros([batch, beam_size], tf.float32),
    )
    *_, ids, scores = tf.while_loop(
        lambda rows, *rest: tf.size(rows) > 0,
        stretch,
        start,
        shape_invariants=tf.nest.map_structure(
            lambda x: tf.TensorShape([size or None for size in x.shape]), start
        ),
    )
    return tf.gather(found.ids, ids, batch_dims=1) if shortlist else ids, scores
