"""Which examples make up which batch: plain arithmetic over lengths, so that it can be replayed.

Batches come as T2T's pipeline makes them: examples stream by, each waits in the bucket of its
length, and a bucket that is full leaves as a batch. Here a whole epoch is cut at once.
"""

from collections.abc import Iterator

import numpy as np

_ORDER, _BATCHES = 0, 1  # which random stream


def bucket_of(lengths: np.ndarray, boundaries: list[int]) -> np.ndarray:
    """Returns each example's bucket: i where boundaries[i-1] <= length < boundaries[i]."""
    return np.searchsorted(boundaries, lengths, side="right").astype(np.uint16)


def cut(
    stream: np.ndarray, buckets: np.ndarray, batch_sizes: list[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Cuts a stream of examples into batches.

    Args:
        stream: the examples' numbers, in the order in which they come.
        buckets: the bucket of every example, by its number.
        batch_sizes: of each bucket.

    Returns:
        The full batches in the order in which they fill up, and what is left in each bucket.
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


def one_pass(stream: np.ndarray, buckets: np.ndarray, batch_sizes: list[int]) -> list[np.ndarray]:
    """Returns batches that hold each example once; the last of each bucket may be small."""
    batches, left = cut(stream, buckets, batch_sizes)
    return batches + [members for members in left if len(members)]


def spread(batches: list[np.ndarray], buckets: np.ndarray, most: int) -> list[np.ndarray]:
    """Returns at most `most` of the batches, a fair sample of them: evenly spaced over the buckets.

    The same ones for the same arguments, in the order in which they came; 0: all. (The first
    batches would be those of the shortest examples, which are the largest and the soonest full.)
    """
    if not 0 < most < len(batches):
        return batches
    by_length = np.argsort([buckets[members[0]] for members in batches], kind="stable")
    middles = (2 * np.arange(most) + 1) * len(batches) // (2 * most)
    return [batches[place] for place in sorted(by_length[middles])]


def endless(
    examples: np.ndarray,
    buckets: np.ndarray,
    batch_sizes: list[int],
    seed: int,
    batch_shuffle_size: int = 0,
    start: int = 0,
) -> Iterator[np.ndarray]:
    """Yields batches for ever: epoch after epoch, each in an order drawn from (seed, epoch).

    What an epoch leaves in the buckets comes first in the next, as in T2T, so that all batches are
    full. `batch_shuffle_size` consecutive batches of an epoch are shuffled among themselves.

    Args:
        start: how many batches to leave out; they are planned but not read, so that it is quick.
    """
    left = examples[:0]
    epoch = 0
    while True:
        order = np.random.default_rng((seed, epoch, _ORDER)).permutation(examples)
        batches, rest = cut(np.concatenate([left, order]), buckets, batch_sizes)
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
