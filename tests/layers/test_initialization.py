"""tensor2tensor's initializers."""

import json

import numpy as np
import pytest
from keras import initializers

from t2t_repro.layers.layer import ByParts, kernel_initializer


@pytest.mark.parametrize(
    "name, limit",
    [
        ("uniform_unit_scaling", np.sqrt(3 * 2 / 300)),
        ("uniform", 0.2),
        ("xavier", np.sqrt(6 / 600)),
    ],
)
def test_uniform_limits(name, limit):
    draw = np.asarray(kernel_initializer(name, 2.0)((200, 400)))
    assert limit * 0.99 < np.abs(draw).max() <= limit * 1.0001


def test_normal_unit_scaling():
    draw = np.asarray(kernel_initializer("normal_unit_scaling", 2.0)((200, 400)))
    np.testing.assert_allclose(draw.std(), np.sqrt(2 / 300), rtol=0.02)


def test_orthogonal():
    draw = np.asarray(kernel_initializer("orthogonal", 2.0)((6, 6)))
    np.testing.assert_allclose(draw @ draw.T, 4 * np.eye(6), atol=1e-5)


def test_each_part_is_drawn_as_a_variable_of_its_own():
    parts = ByParts(kernel_initializer("uniform_unit_scaling"), (4, 40, 400))
    draw = np.asarray(parts((100, 444)))
    for part in np.split(draw, [4, 44], axis=1):
        limit = np.sqrt(3 * 2 / sum(part.shape))
        assert limit * 0.95 < np.abs(part).max() <= limit
    again = initializers.deserialize(json.loads(json.dumps(initializers.serialize(parts))))
    assert again.sizes == parts.sizes
