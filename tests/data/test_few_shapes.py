import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data import few_shapes

# {(rows, length): share}, as T2T's buckets are: the longer, the fewer rows.
BUCKETS = {(30, 2): 0.1, (30, 3): 0.3, (20, 4): 0.25, (20, 5): 0.2, (12, 7): 0.1, (8, 11): 0.05}


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
        shapes = few_shapes.few(found, most)
        assert len(shapes) <= most
        assert sum(shapes.values()) == pytest.approx(sum(found.values()))
        for rows, length in found:
            assert any(rows <= r and length <= n for r, n in shapes)
        *_, apart = every_grouping(found, 9)
        every = list(every_grouping(found, most))
        limited = [each for each in every if largest(each) <= 1.1 * largest(apart)]
        assert ids_of(shapes) == pytest.approx(min(map(ids_of, limited or every)))


def test_buckets_of_as_many_rows_are_joined_first():
    assert few_shapes.few(BUCKETS, 9) == few_shapes.few(BUCKETS, 6) == BUCKETS
    assert list(few_shapes.few(BUCKETS, 5)) == [(30, 3), (20, 4), (20, 5), (12, 7), (8, 11)]
    # (20, 5) is more than a tenth larger than any other, and so joined with nothing longer.
    assert list(few_shapes.few(BUCKETS, 3)) == [(30, 3), (20, 5), (12, 11)]
    assert few_shapes.few({}, 3) == {}


SIZES = [
    ((17, 2), (20, 3)),
    ((20, 3), (20, 3)),
    ((21, 3), (30, 4)),
    ((2, 6), (7, 9)),
    ((8, 7), (8, 7)),
]


@pytest.mark.parametrize("size, wanted", SIZES)
def test_a_batch_is_padded_to_the_least_shape_into_which_it_fits(size, wanted):
    shapes = {(30, 4): 0.2, (7, 9): 0.5, (20, 3): 0.3}
    draw = np.random.default_rng(5)
    batch = {name: draw.integers(1, 9, size).astype("int32") for name in ("inputs", "targets")}
    padded = few_shapes.padder(shapes)(batch)
    in_graph = tf.function(few_shapes.graph_padder(shapes), autograph=False)(batch)
    for name, ids in batch.items():
        assert padded[name].shape == wanted and padded[name].dtype == np.int32
        np.testing.assert_array_equal(padded[name][: size[0], : size[1]], ids)
        assert padded[name].sum() == ids.sum()
        np.testing.assert_array_equal(in_graph[name], padded[name])
        np.testing.assert_array_equal(few_shapes.padder({})(batch)[name], ids)
        np.testing.assert_array_equal(few_shapes.graph_padder({})(batch)[name], ids)
