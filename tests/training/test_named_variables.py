"""The names of a model's variables."""

import keras
import pytest

from t2t_repro.training import named_variables


def test_two_weights_of_one_path_are_refused():
    layers = [keras.layers.Dense(2, name="same"), keras.layers.Dense(2, name="same")]
    for layer in layers:
        layer.build((None, 2))

    class Twice(keras.Model):
        def __init__(self):
            super().__init__(name="twice")
            self.one, self.two = layers

    with pytest.raises(ValueError):
        named_variables.weights(Twice())
