"""The candidates of a batch in a TensorFlow graph: as decoding/shortlist.py has them in NumPy."""

from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_repro.decoding import graph_search
from t2t_repro.decoding.beam_search import GROUP, Rules
from t2t_repro.text.shortlist import Shortlist


class Candidates(NamedTuple):
    """What may be written in a batch of B sentences; U is a multiple of GROUP, 2 GROUP at least.

    They are facts of a search, see decoding/steering.py.

    candidates: int32 (B, U): what pads, the end, the others in order; filled up with what pads.
    allowed: bool (B, U): which of them count.
    """

    candidates: tf.Tensor
    allowed: tf.Tensor


def search(
    model: keras.Model,
    inputs: tf.Tensor,
    limits: tf.Tensor,
    alpha: tf.Tensor,
    rules: Rules,
    shortlist: Shortlist | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids and scores as `graph_search.search`, among the candidates if there are any."""
    if shortlist is None:
        ids, scores, _ = graph_search.search(model, inputs, limits, alpha, rules)
        return ids, scores
    found = candidates(shortlist, inputs)
    facts = found._asdict()
    places, scores, _ = graph_search.search(model, inputs, limits, alpha, rules, facts=facts)
    return tf.gather(found.candidates, places, batch_dims=1), scores


def candidates(shortlist: Shortlist, inputs: tf.Tensor) -> Candidates:
    """Returns the candidates of int32 (B, S), padded with 0."""
    size, batch = shortlist.size, tf.shape(inputs, tf.int64)[0]
    of_id = tf.RaggedTensor.from_row_splits(shortlist.targets, shortlist.begins, validate=False)
    sentence = tf.where(inputs != 0)[:, 0]
    found = tf.gather(of_id, tf.boolean_mask(inputs, inputs != 0))
    where = tf.stack(
        [tf.gather(sentence, found.value_rowids()), tf.cast(found.values, tf.int64)], 1
    )
    counts = tf.scatter_nd(where, tf.ones_like(found.values), tf.stack([batch, size]))
    always = tf.reduce_any(tf.one_hot(shortlist.always, size, True, False), axis=0)
    known = (counts > 0) | always
    wanted = known | (tf.range(size) == 0)
    where = tf.where(wanted)
    rows = tf.RaggedTensor.from_value_rowids(where[:, 1], where[:, 0], batch, validate=False)
    ids = rows.to_tensor()
    more = tf.maximum(2 * GROUP - tf.shape(ids)[1], -tf.shape(ids)[1] % GROUP)
    ids = tf.cast(tf.pad(ids, [[0, 0], [0, more]]), tf.int32)
    there = tf.sequence_mask(rows.row_lengths(), tf.shape(ids)[1])
    return Candidates(ids, tf.gather(known, ids, batch_dims=1) & there)
