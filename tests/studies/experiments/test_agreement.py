"""Subject and object anywhere, heads that share one width, and what is said of the numbers."""

import numpy as np
import pytest

from t2t_repro.studies.experiments import agreement as experiment
from t2t_repro.studies.experiments import recall
from t2t_repro.studies.experiments.agreement import EIGHT, ONE, TWO
from t2t_repro.studies.experiments.recall import DISTANCES, SEEDS, Row


def rows_of(**accuracies) -> list[Row]:
    """Rows of what each number of heads has; the second seed has a hundredth less."""
    of = {ONE: (0.8, 0.7, 0.6, 0.55), TWO: (1.0, 0.95, 0.93, 0.8), EIGHT: (1.0, 1.0, 0.97, 0.9)}
    return [
        Row(name, n, 1, seed, value - seed / 100)
        for name, values in (of | accuracies).items()
        for n, value in zip(DISTANCES, values, strict=True)
        for seed in range(SEEDS)
    ]


def test_subject_and_object_stand_at_two_places_anywhere():
    places = experiment.STUDY.places(np.random.default_rng(3), 500, 7)
    assert places.shape == (500, 2) and (places[:, 0] != places[:, 1]).all()
    assert set(places[:, 0]) == set(places[:, 1]) == set(range(7))


def test_who_knows_both_but_not_which_is_which():
    draw = np.random.default_rng(3)
    asked = draw.integers(0, recall.WORDS, (20_000, 2))
    swapped = draw.random((20_000, 1)) < 0.5
    told = np.where(swapped, asked[:, ::-1], asked)
    assert np.mean(told == asked) == pytest.approx(experiment.CONFUSED, abs=0.01)


def test_the_heads_share_one_width():
    models = [
        recall.make(variant.layers(5), 5, experiment.STUDY.roles)
        for variant in experiment.STUDY.variants.values()
    ]
    assert len({model.count_params() for model in models}) == 1
    heads = [layer.attention.num_heads for m in models for layer in m.layers if "who" in layer.name]
    assert heads == [1, 2, 8]


def test_sentences_follow_the_numbers():
    first, second = experiment.sentences(rows_of())
    assert first.startswith(
        "As section 3.2.2 says: after 300 steps 1 head tells subject and object with an accuracy "
        "of 0.80 (0.79 to 0.80) of 2, "
    )
    assert "of 80 words, 8 heads that share the same width with " in first
    assert second.startswith("With 2 heads, as many as there are words to tell, it is 0.99 (0.99")
    assert second.endswith("not which is which has 0.55, who guesses 0.10.")


def test_one_head_that_is_as_good_is_no_support():
    first, _ = experiment.sentences(rows_of(**{ONE: (0.8, 0.7, 0.6, 0.89)}))
    assert first.startswith("The numbers do not support section 3.2.2: after ")


def test_the_picture_has_a_line_for_each_and_both_levels():
    axes = experiment.picture(rows_of()).axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert labels[:3] == ["1 head of width 32", "2 heads of width 16", "8 heads of width 4"]
    assert labels[3:] == ["both words known, not which is which", "guessed"]
    assert list(axes.lines[2].get_ydata()) == pytest.approx([0.995, 0.995, 0.965, 0.895])
