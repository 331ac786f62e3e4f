"""Assigns examples to batches, by plain arithmetic over lengths, so that it can be replayed.

T2T's length buckets set how many examples of a length make a batch of `batch_size` tokens. As in
T2T's pipeline, each example of a stream waits in the bucket of its length, and a full bucket
becomes a batch. Here a whole epoch is cut at once.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t_repro.config import HParams

NO_LIMIT = 10**9
MOST_SHAPES = 12  # of some forty that subword dropout makes: a tenth more to compute
_LARGER = 1.1  # than the largest batch; `--find_batch_size` leaves as much of the memory free
_ORDER, _BATCHES = 0, 1  # which random stream

Shape = tuple[int, int]  # (rows, length)

# T2T rounds every batch size down to a divisor of one of these windows.
_HIGHLY_COMPOSITE = (
    *(1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560),
    *(10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760),
    *(277200, 332640, 498960, 554400, 665280, 720720, 1081080, 1441440, 2162160, 2882880, 3603600),
    *(4324320, 6486480, 7207200, 8648640, 10810800, 14414400, 17297280, 21621600, 32432400),
    *(36756720, 43243200, 61261200, 73513440, 110270160),
)


def batching_scheme(
    batch_size: int,
    max_length: int,
    min_length_bucket: int,
    length_bucket_step: float,
    shard_multiplier: int = 1,
    length_multiplier: int = 1,
) -> dict:
    """Returns T2T's batching scheme.

    Args:
        batch_size: tokens in a batch, padding included; an example counts by its longer side.
        max_length: the last bucket's upper end; 0: `batch_size`.
        min_length_bucket: the first boundary.
        length_bucket_step: each boundary is this much larger than the one before; above 1.
        shard_multiplier: multiplies the batch sizes, so that a batch divides among shards.
        length_multiplier: multiplies boundaries and `max_length`.

    Returns:
        "boundaries": bucket i holds lengths in [boundaries[i-1], boundaries[i]);
        "batch_sizes": one more than boundaries.
    """
    max_length = max_length or batch_size
    boundaries = []
    boundary = min_length_bucket
    while boundary < max_length:
        boundaries.append(boundary * length_multiplier)
        boundary = max(boundary + 1, int(boundary * length_bucket_step))
    max_length *= length_multiplier
    sizes = [max(1, batch_size // length) for length in [*boundaries, max_length]]
    window = max(n for n in _HIGHLY_COMPOSITE if n <= 3 * max(sizes))
    divisors = [n for n in range(1, window + 1) if window % n == 0]
    sizes = [shard_multiplier * max(n for n in divisors if n <= size) for size in sizes]
    return {"boundaries": boundaries, "batch_sizes": sizes}


def hparams_to_batching_scheme(hparams: HParams, **more: Any) -> dict:
    """Returns the scheme of `hparams`; use_fixed_batch_size makes it a single bucket.

    `more` are other arguments of `batching_scheme`, such as `shard_multiplier`.
    """
    names = ("batch_size", "max_length", "min_length_bucket", "length_bucket_step")
    scheme = batching_scheme(**{name: getattr(hparams, name) for name in names}, **more)
    if hparams.use_fixed_batch_size:
        scheme["boundaries"] = []
        scheme["batch_sizes"] = [hparams.batch_size * more.get("shard_multiplier", 1)]
    return scheme


def bucket_of(lengths: np.ndarray, boundaries: list[int]) -> np.ndarray:
    """Returns each example's bucket: i where boundaries[i-1] <= length < boundaries[i]."""
    return np.searchsorted(boundaries, lengths, side="right").astype(np.uint16)


def fill_buckets(
    stream: np.ndarray, buckets: np.ndarray, batch_sizes: list[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Cuts a stream of examples into batches.

    Args:
        stream: the examples' numbers, in order.
        buckets: the bucket of every example, by its number.
        batch_sizes: of each bucket.

    Returns:
        The full batches in the order in which they fill up, and the rest in each bucket.
    """
    bucket = buckets[stream]
    places = np.argsort(bucket, kind="stable")  # places in the stream, bucket by bucket
    ends = np.cumsum(np.bincount(bucket, minlength=len(batch_sizes)))
    batches: list[np.ndarray] = []
    left: list[np.ndarray] = []
    for size, members in zip(batch_sizes, np.split(places, ends[:-1]), strict=True):
        full = len(members) // size * size
        batches.extend(members[:full].reshape(-1, size))
        left.append(members[full:])
    batches.sort(key=lambda members: members[-1])
    return [stream[members] for members in batches], [stream[members] for members in left]


def epoch_batches(
    stream: np.ndarray, buckets: np.ndarray, batch_sizes: list[int]
) -> list[np.ndarray]:
    """Returns batches that hold each example once; the last of each bucket may be small."""
    batches, left = fill_buckets(stream, buckets, batch_sizes)
    return batches + [members for members in left if len(members)]


def spread(batches: list[np.ndarray], buckets: np.ndarray, most: int) -> list[np.ndarray]:
    """Returns at most `most` of the batches, a fair sample of them: evenly spaced over the buckets.

    The same arguments give the same batches, in their order; 0: all. (The first batches would be
    those of the shortest examples, whose buckets fill first.)
    """
    if not 0 < most < len(batches):
        return batches
    by_length = np.argsort([buckets[members[0]] for members in batches], kind="stable")
    middles = (2 * np.arange(most) + 1) * len(batches) // (2 * most)
    return [batches[place] for place in sorted(by_length[middles])]


def epochs(
    examples: np.ndarray,
    buckets: np.ndarray,
    batch_sizes: list[int],
    seed: int,
    batch_shuffle_size: int = 0,
    start: int = 0,
) -> Iterator[np.ndarray]:
    """Yields batches for ever: epoch after epoch, each in an order drawn from (seed, epoch).

    The rest of an epoch in the buckets comes first in the next, as in T2T, so that all batches are
    full. `batch_shuffle_size` consecutive batches of an epoch are shuffled among themselves.

    Args:
        start: how many batches to skip; they are planned but not read, which is quick.
    """
    left = examples[:0]
    epoch = 0
    while True:
        order = np.random.default_rng((seed, epoch, _ORDER)).permutation(examples)
        batches, rest = fill_buckets(np.concatenate([left, order]), buckets, batch_sizes)
        left = np.concatenate(rest)
        rng = np.random.default_rng((seed, epoch, _BATCHES))
        block = batch_shuffle_size or 1
        for first in range(0, len(batches), block):
            part = batches[first : first + block]
            for place in rng.permutation(len(part)):
                if start:
                    start -= 1
                    continue
                yield part[place]
        epoch += 1


def few_shapes(found: Mapping[Shape, float], most: int) -> dict[Shape, float]:
    """Returns {shape: share} of at most `most` shapes, into which all fit, with the least padding.

    Neighbouring lengths share a shape, of the most rows and the longest. None is more than a tenth
    larger than the largest batch, unless `most` is too small for that.

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
    """Returns `few_shapes` of (rows, length, share) by length; {}: none is within the limit."""
    # For the first so many lengths: the ids of a mean batch, and the shapes.
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
