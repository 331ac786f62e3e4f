"""Records of a batch to its arrays: cut, and padded to the longest, or to one of a few shapes."""

from collections.abc import Callable, Mapping

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.data import example, few_shapes, packing
from t2t_repro.data import index as record_index
from t2t_repro.data.batching import NO_LIMIT
from t2t_repro.data.few_shapes import Shape
from t2t_repro.problem import Problem

NO_SHAPES: Mapping[Shape, float] = {}


def cuts(hparams: HParams) -> dict[str, int]:
    """Returns how many ids of each side are taken."""
    return {
        "inputs": hparams.max_input_seq_length or NO_LIMIT,
        "targets": hparams.max_target_seq_length or NO_LIMIT,
    }


def parser(
    problem: Problem, hparams: HParams, tops: list[int], shapes: Mapping[Shape, float] = NO_SHAPES
) -> Callable:
    """Returns a function of a batch of records, inside TensorFlow's graph.

    Args:
        problem: the problem.
        hparams: say what is cut.
        tops: to which lengths both sides are padded: the least that is enough; []: to its longest,
            each side for itself.
        shapes: to which of these batches are padded after that, by `few_shapes.graph_padder`.
    """
    import tensorflow as tf

    pad = few_shapes.graph_padder(shapes)
    features, most = packing.features(problem), cuts(hparams)

    def parse(serialized):
        stored = record_index.parse(serialized, packing.stored(problem))
        sides = {}
        for name in features:
            ids = stored[problem.stored_feature(name)]
            cut = most[name.partition("_")[0]]
            sides[name] = tf.cast(ids[:, :cut].to_tensor(), tf.int32)  # (B, longest)
        if not tops:
            return sides
        longest = tf.reduce_max([tf.shape(ids)[1] for ids in sides.values()])
        width = tf.reduce_min(tf.boolean_mask(tops, tf.constant(tops) >= longest))
        return pad(
            {
                name: tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]])
                for name, ids in sides.items()
            }
        )

    return parse


def numpy_parser(
    problem: Problem, hparams: HParams, tops: list[int], shapes: Mapping[Shape, float] = NO_SHAPES
) -> Callable:
    """Returns a function of a batch of records, without TensorFlow; arguments as `parser`'s."""
    features, most = packing.features(problem), cuts(hparams)
    pad = few_shapes.padder(shapes)

    def parse(serialized) -> dict[str, np.ndarray]:
        stored = example.parse(serialized, packing.stored(problem))
        sides = {
            name: example.padded(
                *stored[problem.stored_feature(name)], most[name.partition("_")[0]]
            )
            for name in features
        }
        longest = max(ids.shape[1] for ids in sides.values())
        width = min((top for top in tops if top >= longest), default=0)
        more = {n: max(width - ids.shape[1], 0) for n, ids in sides.items()}
        return pad({n: np.pad(ids, ((0, 0), (0, more[n]))) for n, ids in sides.items()})

    return parse
