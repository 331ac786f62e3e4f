"""Layers whose paths are as long as is said, and sentences that follow the accuracies."""

import numpy as np
import pytest

from t2t_repro.studies.experiments import distance as experiment
from t2t_repro.studies.experiments import recall
from t2t_repro.studies.experiments.recall import DISTANCES, SEEDS, Row

ATTENTION, LSTM, CONTIGUOUS, DILATED, SEPARABLE = experiment.STUDY.variants
WORDS = 8


def rows_of(**accuracies) -> list[Row]:
    """Rows of what a kind has at each distance; the second seed has a hundredth less."""
    of = {ATTENTION: (1.0, 1.0, 1.0, 0.97), LSTM: (1.0, 1.0, 0.5, 0.1)}
    of |= {CONTIGUOUS: (1.0, 0.9, 0.3, 0.12), DILATED: (1.0, 1.0, 1.0, 0.96)}
    of |= {SEPARABLE: (1.0, 1.0, 0.99, 0.95)} | accuracies
    return [
        Row(name, n, experiment.STUDY.variants[name].path(n), seed, value - seed / 100)
        for name, values in of.items()
        for n, value in zip(DISTANCES, values, strict=True)
        for seed in range(SEEDS)
    ]


def moves(layers) -> bool:
    """Returns whether the first word changes what the model says at the end."""
    model = recall.make(layers, WORDS, 1)
    draw = np.random.default_rng(3)
    (ids, cases), _ = recall.draw_sentences(draw, WORDS, np.zeros((5, 1), int))
    others = ids.copy()
    others[:, 0] = ids[:, 0] % recall.WORDS + 1
    one, other = (np.asarray(model([x, cases])) for x in (ids, others))
    assert one.shape == (5, 1, recall.WORDS)
    return not np.array_equal(one, other)


@pytest.mark.parametrize("name", experiment.STUDY.variants)
def test_the_first_word_reaches_the_end(name):
    layers, path = experiment.STUDY.variants[name]
    made = layers(WORDS)
    assert path(WORDS) == (WORDS if name == LSTM else len(made))
    assert moves(made)


@pytest.mark.parametrize("name, count", [(CONTIGUOUS, 4), (DILATED, 2)])
def test_a_convolution_less_does_not_see_it(name, count):
    layers = experiment.STUDY.variants[name].layers(WORDS)
    assert len(layers) == count and not moves(layers[:-1])


def test_paths_are_those_of_table_1():
    of = {name: [v.path(n) for n in DISTANCES] for name, v in experiment.STUDY.variants.items()}
    assert of == {
        ATTENTION: [1, 1, 1, 1],
        LSTM: [2, 8, 26, 80],
        CONTIGUOUS: [1, 4, 13, 40],
        DILATED: [1, 2, 3, 4],
        SEPARABLE: [1, 1, 1, 1],
    }
    assert experiment.kinds(1, 1) == [ATTENTION, SEPARABLE]
    assert experiment.kinds(2, 6) == [DILATED]


def test_sentences_follow_the_numbers():
    first, second = experiment.sentences(rows_of())
    assert first.startswith(
        "As section 4 says: after 300 steps a word 80 words back is told with an accuracy of 0.96 "
        "(0.96 to 0.97) with self-attention (path 1), "
    )
    assert ", and of 0.10 (0.09 to 0.10) with recurrent (LSTM) (path 80), " in first
    assert "; between them, of 0.95 (0.95 to 0.96) with convolutions, dilated (path 4) (" in first
    assert second == (
        "The greatest distance at which every seed has at least 0.9 is 80 with self-attention, 8 "
        "with recurrent (LSTM), 2 with convolutions, contiguous, 80 with convolutions, dilated, 80 "
        "with separable convolution, k = n, of 2, 8, 26, 80 tried."
    )


def test_a_logarithm_decides_nothing():
    first, _ = experiment.sentences(rows_of(**{DILATED: (1.0, 1.0, 1.0, 0.1)}))
    assert first.startswith("As section 4 says: ") and "; between them, of 0.10 (" in first


@pytest.mark.parametrize(
    "other",
    [
        {LSTM: (1.0, 1.0, 1.0, 0.95)},  # a long path that reaches as far
        {SEPARABLE: (1.0, 1.0, 0.9, 0.12)},  # a short one that does not
        {CONTIGUOUS: (0.9, 0.5, 0.3, 0.1)},  # one that has not learned the nearest
    ],
)
def test_what_does_not_follow_the_path_is_no_support(other):
    first, _ = experiment.sentences(rows_of(**other))
    assert first.startswith("The numbers do not support what section 4 says: ")


def test_the_picture_has_a_line_and_the_paths_of_each_kind():
    left, right = experiment.picture(rows_of()).axes
    assert left.get_legend_handles_labels()[1] == [*experiment.STUDY.variants]
    assert [list(line.get_xdata()) for line in left.lines[:5]] == [[*DISTANCES]] * 5
    assert list(right.lines[1].get_xdata()) == [2, 8, 26, 80]
    assert list(right.lines[3].get_ydata()) == pytest.approx([0.995, 0.995, 0.995, 0.955])
