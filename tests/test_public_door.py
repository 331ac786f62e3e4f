"""The public door leads to all that it names, and keeps what its documentation writes."""

import numpy as np
import pytest

import t2t_repro
from t2t_repro.data.batching import batching_scheme
from t2t_repro.training import losses


def test_calls_that_nothing_else_makes():
    labels = np.array([[9, 10, 1], [11, 12, 1]]) % 7
    total, weight = losses.padded_cross_entropy(np.zeros((2, 3, 7)), labels, 0.1)
    assert float(weight) == 6 and float(total) > 0
    how = {"drop_long_sequences": True, "shard_multiplier": 1, "min_length": 0}
    scheme = batching_scheme(4096, 256, 8, 1.1, **how)
    assert set(scheme) >= {"boundaries", "batch_sizes", "max_length"}


def test_the_door_shows_what_it_leads_to():
    assert all(hasattr(t2t_repro, name) for name in t2t_repro.__all__)
    with pytest.raises(AttributeError, match="Transfomer"):
        t2t_repro.Transfomer  # noqa: B018
