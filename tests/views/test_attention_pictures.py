"""What stands beside the maps of attention."""

import numpy as np
import pytest

from t2t_repro.views import attention_pictures, pictures
from t2t_repro.views.attention import Maps


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


@pytest.mark.parametrize("draw", [attention_pictures.weights, attention_pictures.layers])
def test_few_tokens_are_named_and_many_are_numbered(draw):
    queries, keys = [f"q{i}" for i in range(7)], [f"k{i}" for i in range(57)]
    of = Maps("encoder", "Encoder", queries, keys, np.full((2, 3, 7, 57), 1 / 57, "float32"))
    figure = draw(of)
    first, last = figure.axes[0], figure.axes[-1]
    assert labels(first.yaxis) == queries and first.get_ylabel() == "looks"
    assert labels(last.xaxis) == ["0", "10", "20", "30", "40", "50"]
    assert last.get_xticks().tolist() == [0, 10, 20, 30, 40, 50]
    assert last.get_xlabel() == "is looked at" and labels(last.yaxis) == []
    assert len(pictures.png(figure)) > 1000
