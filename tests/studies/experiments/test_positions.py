"""The rotation is found where there is one, and not claimed where there is none."""

import math

import numpy as np
import pytest

from t2t_repro.layers.position import timing_signal
from t2t_repro.studies.experiments import positions as experiment


@pytest.fixture(scope="module")
def result():
    return experiment.run()


def test_a_rotation_is_fitted_as_itself():
    angles = np.arange(2 * experiment.FITTED + 5) * 0.3
    pair = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    maps, errors = experiment.fit(pair[None], offset=5)
    c, s = math.cos(1.5), math.sin(1.5)
    np.testing.assert_allclose(maps, [[[c, s], [-s, c]]], atol=1e-12)
    assert experiment.angle_of(maps[0]) == pytest.approx(1.5)
    assert errors.shape == (1,) and errors[0] < 1e-12


def test_the_whole_map_takes_a_position_to_a_later_one():
    length = 2 * experiment.FITTED + 3
    signal = np.asarray(timing_signal(np.arange(length, dtype="float32"), 6), "float64")
    maps, _ = experiment.fit(experiment.pairs_of(signal), offset=3)
    assert maps.shape == (3, 2, 2)
    np.testing.assert_allclose(experiment.whole(maps) @ signal[7], signal[10], atol=1e-4)


def test_the_paper_is_right(result):
    assert len(result.rows) == len(experiment.OFFSETS) * experiment.WIDTH // 2
    assert max(row.error for row in result.rows) < 1e-4
    assert max(experiment.turned_apart(row) for row in result.rows) < 1e-4
    assert min(row.random_error for row in result.rows) > 0.9
    assert max(abs(row.angle) for row in result.rows) <= math.pi
    assert result.sentences[0].startswith("As the paper says: on positions 256 to 511")
    assert "it is the sinusoids that make it possible" in result.sentences[1]


@pytest.mark.parametrize("wrong", [{"error": 0.02}, {"fitted_angle": 2.5}])
def test_one_pair_that_does_not_fit_is_no_support(result, wrong):
    rows = [*result.rows[1:], result.rows[0]._replace(**wrong)]
    first, _ = experiment.sentences(rows)
    assert first.startswith("The numbers do not support the paper's claim: ")


def test_a_fit_that_suits_random_vectors_too_says_nothing(result):
    rows = [*result.rows, result.rows[0]._replace(random_error=0.25)]
    _, second = experiment.sentences(rows)
    assert "only 25% of some random vectors" in second and "nothing about sinusoids" in second


def test_a_whole_turn_is_no_difference(result):
    row = result.rows[0]._replace(angle=math.pi - 1e-6, fitted_angle=1e-6 - math.pi)
    assert experiment.turned_apart(row) == pytest.approx(2e-6, rel=1e-3)
