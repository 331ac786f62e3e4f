"""What knows the order departs from equivariance, and the sentences follow the numbers."""

import pytest

from t2t_repro.studies.experiments import order as experiment
from t2t_repro.studies.experiments.order import Row


def rows_of(blind: float, knowing: float, **others) -> list[Row]:
    values = dict.fromkeys(experiment.WITHOUT, blind) | dict.fromkeys(experiment.WITH, knowing)
    return [
        Row(name, draw, value * (1 + draw / 10))
        for name, value in (values | others).items()
        for draw in range(experiment.DRAWS)
    ]


@pytest.mark.parametrize("name", ["self-attention", "relative self-attention"])
def test_attention_knows_no_order_until_it_is_told(name):
    found = experiment.departure(name, 1)
    if name in experiment.WITHOUT:
        assert 0 < found < experiment.EQUIVARIANT
    else:
        assert found > 0.1


@pytest.mark.slow
def test_every_layer_is_as_the_paper_says():
    result = experiment.run()
    assert len(result.rows) == 8 * experiment.DRAWS
    first, second = result.sentences
    assert first.startswith("As section 3.5 says") and second.startswith("The order is known with")


def test_sentences_follow_the_numbers():
    first, second = experiment.sentences(rows_of(2e-7, 0.5))
    assert first.startswith(
        "As section 3.5 says: without positions the outputs of words in another"
    )
    assert "3e-07 for self-attention" in first  # the greatest draw
    assert second.startswith("The order is known with") and "0.50 for LSTM (the least)" in second
    first, second = experiment.sentences(rows_of(2e-7, 0.5, **{"feed-forward": 0.3, "LSTM": 1e-4}))
    assert first.startswith("Not as section 3.5 says: the outputs")
    assert second.startswith("The order is not always known with")


def test_the_picture_has_a_mark_for_each_draw():
    axes = experiment.picture(rows_of(0.0, 0.5)).axes[0]
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in marks] == [experiment.DRAWS] * 8
