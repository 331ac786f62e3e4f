import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.config import HParams
from t2t_repro.data import batching
from t2t_repro.data.batching import batching_scheme, hparams_to_batching_scheme

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/text/batching.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(list(case["args"].values())))
def test_scheme_equals_t2t(case):
    arguments = {name: value for name, value in case["args"].items() if name != "min_length"}
    scheme = batching_scheme(**arguments)
    assert scheme == {name: case["result"][name] for name in scheme} and len(scheme) == 2


def test_lengths_are_multiplied():
    plain = batching_scheme(512, 64, 8, 1.5)
    longer = batching_scheme(512, 64, 8, 1.5, length_multiplier=2)
    assert longer["boundaries"] == [2 * boundary for boundary in plain["boundaries"]]


def test_fixed_batch_size_counts_sentences():
    hparams = HParams(batch_size=48, max_length=64, use_fixed_batch_size=True)
    scheme = hparams_to_batching_scheme(hparams, shard_multiplier=2)
    assert (scheme["boundaries"], scheme["batch_sizes"]) == ([], [96])


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
    buckets = batching.bucket_of(LENGTHS, BOUNDARIES)
    planned = as_lists(batching.epoch_batches(stream, buckets, SIZES))
    assert planned == tf_data(stream)
    assert sorted(itertools.chain(*planned)) == list(range(200))


def test_epochs_equal_t2ts_pipeline_over_repeated_epochs():
    """Without batch shuffling: what is left in a bucket goes on into the next epoch."""
    examples = np.arange(len(LENGTHS))
    buckets = batching.bucket_of(LENGTHS, BOUNDARIES)
    orders = [np.random.default_rng((7, epoch, 0)).permutation(examples) for epoch in range(3)]
    expected = [b for b in tf_data(np.concatenate(orders)) if len(b) == SIZES[buckets[b[0]]]]
    batches = as_lists(
        itertools.islice(batching.epochs(examples, buckets, SIZES, 7), len(expected))
    )
    assert batches == expected


def test_their_batches_are_full_and_hold_every_example_equally():
    examples = np.flatnonzero(LENGTHS > 2)
    buckets = batching.bucket_of(LENGTHS, BOUNDARIES)
    seen = np.zeros(len(LENGTHS), int)
    for batch in itertools.islice(batching.epochs(examples, buckets, SIZES, 1, 16), 2000):
        bucket = set(buckets[batch])
        assert len(bucket) == 1 and len(batch) == SIZES[bucket.pop()]
        seen[batch] += 1
    assert not seen[LENGTHS <= 2].any()
    assert np.ptp(seen[examples]) <= 3  # one in this epoch, two that wait in a bucket


def test_they_are_repeatable_and_start_anywhere():
    examples, buckets = np.arange(200), batching.bucket_of(LENGTHS, BOUNDARIES)

    def run(seed, start=0, count=150):
        stream = batching.epochs(examples, buckets, SIZES, seed, batch_shuffle_size=8, start=start)
        return as_lists(itertools.islice(stream, count))

    assert run(1) == run(1) != run(2)
    for start in (1, 7, 60, 149):
        assert run(1, start, 150 - start) == run(1)[start:]


def test_batch_shuffle_stays_within_its_blocks():
    examples, buckets = np.arange(200), batching.bucket_of(LENGTHS, BOUNDARIES)
    plain = as_lists(itertools.islice(batching.epochs(examples, buckets, SIZES, 1), 40))
    mixed = as_lists(itertools.islice(batching.epochs(examples, buckets, SIZES, 1, 10), 40))
    assert plain != mixed
    for first in range(0, 40, 10):
        assert sorted(plain[first : first + 10]) == sorted(mixed[first : first + 10])


def test_a_sample_of_the_batches_has_all_lengths():
    places = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3])
    batches = [np.array([number]) for number in (4, 0, 6, 1, 2, 9, 3, 5, 7, 8)]

    def chosen(most):
        return [int(members[0]) for members in batching.spread(batches, places, most)]

    everything = [4, 0, 6, 1, 2, 9, 3, 5, 7, 8]
    assert chosen(0) == chosen(10) == chosen(11) == everything
    assert chosen(1) == [5]  # the middle one by length: of 0 1 2 3 4 5 6 7 8 9
    assert chosen(2) == [2, 7] and chosen(5) == [1, 9, 3, 5, 7]
    assert chosen(9) == [n for n in everything if n in chosen(9)] and len(chosen(9)) == 9


def every_grouping(found, most):
    """Yields {shape: share} of all groups of lengths that follow one another."""
    lengths = sorted({length for _, length in found})
    for count in range(1, min(most, len(lengths)) + 1):
        for ends in itertools.combinations(range(1, len(lengths)), count - 1):
            shapes = {}
            for start, end in itertools.pairwise((0, *ends, len(lengths))):
                group = {s: f for s, f in found.items() if s[1] in lengths[start:end]}
                shapes[max(r for r, _ in group), lengths[end - 1]] = sum(group.values())
            yield shapes


def ids_of(shapes):
    return sum(share * rows * length for (rows, length), share in shapes.items())


def largest(shapes):
    return max(rows * length for rows, length in shapes)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6])
def test_no_other_shapes_have_less_padding(most):
    for draw in map(random.Random, range(30)):
        found = {(draw.randint(1, 40), draw.randint(1, 9)): draw.random() for _ in range(8)}
        shapes = batching.few_shapes(found, most)
        assert len(shapes) <= most
        assert sum(shapes.values()) == pytest.approx(sum(found.values()))
        for rows, length in found:
            assert any(rows <= r and length <= n for r, n in shapes)
        *_, apart = every_grouping(found, 9)
        every = list(every_grouping(found, most))
        limited = [each for each in every if largest(each) <= 1.1 * largest(apart)]
        assert ids_of(shapes) == pytest.approx(min(map(ids_of, limited or every)))
    assert batching.few_shapes({}, most) == {}
