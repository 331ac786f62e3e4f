"""A few shapes for all batches, where XLA compiles each: those of near shapes are padded alike."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

MOST = 12  # of some forty that subword dropout makes: a tenth more to compute
_LARGER = 1.1  # than the largest batch; `--find_batch_size` leaves as much of the memory free

Shape = tuple[int, int]  # (rows, length)


def suit(model: str) -> bool:
    """Returns whether rows and columns of zeros are nothing to the loss of a model of that name.

    To a Transformer they are. In tensor2tensor's LSTM and ByteNet the padding of a sentence counts,
    and of a user's own model nothing is known.
    """
    return model == "transformer"


def few(found: Mapping[Shape, float], most: int = MOST) -> dict[Shape, float]:
    """Returns {shape: share} of at most `most` shapes, into which all fit, with the least padding.

    Lengths that follow one another share a shape: of the most rows and the longest. None is larger
    than the largest batch by more than a tenth, unless so few do not suffice then.

    Args:
        found: {shape: its share of the batches}.
        most: how many there may be.
    """
    lengths = sorted({length for _, length in found})
    rows = [max(r for r, length in found if length == each) for each in lengths]
    shares = [sum(s for (_, length), s in found.items() if length == each) for each in lengths]
    measured = list(zip(rows, lengths, shares, strict=True))
    limit = _LARGER * max((r * length for r, length, _ in measured), default=0)
    return _joined(measured, most, limit) or _joined(measured, most, math.inf)


def _joined(measured: list[tuple[int, int, float]], most: int, limit: float) -> dict[Shape, float]:
    """Returns `few` of (rows, length, share) in order of length; {}: none is within the limit."""
    # For so many of the lengths, from the first on: the ids of a mean batch, and the shapes.
    best: list[tuple[float, dict[Shape, float]]] = [(0.0, {})]
    best += [(math.inf, {})] * len(measured)
    for _ in range(most):
        with_one_more = list(best)
        for end, (_, length, _) in enumerate(measured, 1):
            most_rows, share = 0, 0.0
            for start in reversed(range(end)):
                most_rows = max(most_rows, measured[start][0])
                share += measured[start][2]
                ids = best[start][0] + share * most_rows * length
                if most_rows * length <= limit and ids < with_one_more[end][0]:
                    with_one_more[end] = ids, {**best[start][1], (most_rows, length): share}
        best = with_one_more
    return best[-1][1]


def padder(shapes: Mapping[Shape, float]) -> Callable[[dict[str, np.ndarray]], dict]:
    """Returns a function that pads a batch, whose sides have one shape, to the least it fits into.

    What it adds is 0, rows too. A batch that fits into none stays as it is, as do all where there
    is none.
    """
    by_size = _by_size(shapes)
    if not by_size:
        return dict

    def pad(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        size = next(iter(batch.values())).shape
        wanted = next((s for s in by_size if s[0] >= size[0] and s[1] >= size[1]), size)
        more = [(0, to - of) for to, of in zip(wanted, size, strict=True)]
        return {name: np.pad(ids, more) for name, ids in batch.items()}

    return pad


def graph_padder(shapes: Mapping[Shape, float]) -> Callable[[dict[str, Any]], dict]:
    """As `padder`, inside TensorFlow's graph."""
    import tensorflow as tf

    by_size = _by_size(shapes)
    if not by_size:
        return dict

    def pad(batch):
        size = tf.shape(next(iter(batch.values())))
        fits = tf.reduce_all(tf.constant(by_size) >= size, axis=1)
        wanted = tf.concat([tf.boolean_mask(by_size, fits), [size]], 0)[0]
        return {
            name: tf.pad(ids, tf.stack([[0, 0], wanted - size], axis=1))
            for name, ids in batch.items()
        }

    return pad


def _by_size(shapes: Mapping[Shape, float]) -> list[Shape]:
    return sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))
