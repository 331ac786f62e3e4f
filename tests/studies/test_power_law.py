"""The exponent of a power is found; two points are enough."""

import pytest

from t2t_repro.studies.power_law import exponent


def test_the_exponent_is_that_of_a_power():
    assert exponent((2, 4, 8), (12, 48, 192)) == pytest.approx(2)
    assert exponent((3, 5), (7, 7)) == pytest.approx(0)
    assert exponent((2, 8), (8.0, 4.0)) == pytest.approx(-0.5)
