import itertools

import numpy as np
import tensorflow as tf

from t2t_repro.data.buckets import bucket_of, endless, one_pass, spread

BOUNDARIES, SIZES = [4, 7, 9], [6, 4, 3, 2]
LENGTHS = np.random.default_rng(3).integers(1, 12, size=200)


def tf_data(stream: np.ndarray) -> list[list[int]]:
    """The batches of T2T's own pipeline: bucket_by_sequence_length."""
    dataset = tf.data.Dataset.from_tensor_slices(stream).bucket_by_sequence_length(
        lambda number: tf.gather(LENGTHS.astype(np.int32), number), BOUNDARIES, SIZES
    )
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def as_lists(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_one_pass_equals_t2ts_pipeline():
    stream = np.random.default_rng(4).permutation(len(LENGTHS))
    buckets = bucket_of(LENGTHS, BOUNDARIES)
    planned = as_lists(one_pass(stream, buckets, SIZES))
    assert planned == tf_data(stream)
    assert sorted(itertools.chain(*planned)) == list(range(200))


def test_endless_equals_t2ts_pipeline_over_repeated_epochs():
    """Without batch shuffling: what is left in a bucket goes on into the next epoch."""
    examples = np.arange(len(LENGTHS))
    buckets = bucket_of(LENGTHS, BOUNDARIES)
    orders = [np.random.default_rng((7, epoch, 0)).permutation(examples) for epoch in range(3)]
    expected = [b for b in tf_data(np.concatenate(orders)) if len(b) == SIZES[buckets[b[0]]]]
    batches = as_lists(itertools.islice(endless(examples, buckets, SIZES, 7), len(expected)))
    assert batches == expected


def test_endless_batches_are_full_and_hold_every_example_equally():
    examples = np.flatnonzero(LENGTHS > 2)
    buckets = bucket_of(LENGTHS, BOUNDARIES)
    seen = np.zeros(len(LENGTHS), int)
    for batch in itertools.islice(endless(examples, buckets, SIZES, 1, 16), 2000):
        bucket = set(buckets[batch])
        assert len(bucket) == 1 and len(batch) == SIZES[bucket.pop()]
        seen[batch] += 1
    assert not seen[LENGTHS <= 2].any()
    assert np.ptp(seen[examples]) <= 3  # one in this epoch, two that wait in a bucket


def test_endless_is_repeatable_and_starts_anywhere():
    examples, buckets = np.arange(200), bucket_of(LENGTHS, BOUNDARIES)

    def run(seed, start=0, count=150):
        stream = endless(examples, buckets, SIZES, seed, batch_shuffle_size=8, start=start)
        return as_lists(itertools.islice(stream, count))

    assert run(1) == run(1) != run(2)
    for start in (1, 7, 60, 149):
        assert run(1, start, 150 - start) == run(1)[start:]


def test_batch_shuffle_stays_within_its_blocks():
    examples, buckets = np.arange(200), bucket_of(LENGTHS, BOUNDARIES)
    plain = as_lists(itertools.islice(endless(examples, buckets, SIZES, 1), 40))
    mixed = as_lists(itertools.islice(endless(examples, buckets, SIZES, 1, 10), 40))
    assert plain != mixed
    for first in range(0, 40, 10):
        assert sorted(plain[first : first + 10]) == sorted(mixed[first : first + 10])


def test_few_examples_wait_until_a_bucket_is_full():
    stream = endless(np.arange(2), np.zeros(2, int), [5], seed=0)
    batch = next(stream)
    assert len(batch) == 5 and set(batch) == {0, 1}


def test_a_sample_of_the_batches_has_all_lengths():
    places = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3])
    batches = [np.array([number]) for number in (4, 0, 6, 1, 2, 9, 3, 5, 7, 8)]

    def chosen(most):
        return [int(members[0]) for members in spread(batches, places, most)]

    everything = [4, 0, 6, 1, 2, 9, 3, 5, 7, 8]
    assert chosen(0) == chosen(10) == chosen(11) == everything
    assert chosen(1) == [5]  # the middle one by length: of 0 1 2 3 4 5 6 7 8 9
    assert chosen(2) == [2, 7] and chosen(5) == [1, 9, 3, 5, 7]
    assert chosen(9) == [n for n in everything if n in chosen(9)] and len(chosen(9)) == 9
