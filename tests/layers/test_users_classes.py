"""What a Keras user derives from the layers, and hands to them."""

import keras
import numpy as np
import pytest
from keras import ops

from t2t_repro import layers

D = 12


def x_of(length=5, width=D, seed=3):
    return np.random.default_rng(seed).normal(size=(2, length, width)).astype("float32")


@keras.saving.register_keras_serializable("users_classes")
class OwnNorm(layers.LayerNorm):
    """Passes everything on."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


@keras.saving.register_keras_serializable("users_classes")
class Scaled(layers.EncoderLayer):
    """Says its configuration as Keras's layers do."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self._factor = factor

    def call(self, x, training=False):
        return self._factor * super().call(x, training=training)

    def get_config(self):
        return {**super().get_config(), "factor": self._factor}


@keras.saving.register_keras_serializable("users_classes")
class Narrow(layers.EncoderLayer):
    """Decides some of the arguments itself."""

    def __init__(self, width, **kwargs):
        super().__init__(num_heads=3, filter_size=2 * width, **kwargs)
        self.width = width


@pytest.mark.parametrize(
    "make",
    [
        lambda: OwnNorm(epsilon=0.5),
        lambda: Scaled(factor=3.0, num_heads=3, filter_size=20),
        lambda: Narrow(width=7, kernel_initializer="he_normal"),
    ],
)
def test_a_class_of_the_users_is_saved_and_loaded(make, tmp_path):
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, make()(inputs))
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again(x_of()), model(x_of()))


def test_what_the_class_decides_is_not_in_its_config():
    config = Narrow(width=7, dropout=0.25).get_config()
    assert (config["width"], config["dropout"]) == (7, 0.25)
    assert "num_heads" not in config and "filter_size" not in config


class Filled(keras.initializers.Initializer):
    """Does not say how it is configured."""

    def __init__(self, value):
        self.value = value

    def __call__(self, shape, dtype=None):
        return ops.full(shape, self.value, dtype=dtype)


@pytest.mark.parametrize(
    "initializer", [lambda shape, dtype=None: ops.full(shape, 0.25, dtype=dtype), Filled(0.25)]
)
def test_an_initializer_may_be_a_function_or_say_no_config(initializer):
    layer = layers.EncoderLayer(3, 20, kernel_initializer=initializer)
    assert layer(x_of()).shape == (2, 5, D)
    kernels = [each for each in layer.weights if len(each.shape) == 2]
    assert len(kernels) == 4
    for kernel in kernels:
        np.testing.assert_array_equal(kernel, np.full(kernel.shape, 0.25))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.MultiHeadAttention(3, 4),
        lambda: layers.DecoderLayer(3, 20),
        lambda: layers.TransformerDecoder(20, 3),
    ],
)
def test_memory_may_have_another_width(layer, tmp_path):
    queries, values = keras.Input((None, D)), keras.Input((None, 18))
    outputs = layer()(queries, values)
    model = keras.Model([queries, values], outputs)
    both = [x_of(), x_of(7, 18)]
    assert model(both).shape == (2, 5, D)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again(both), model(both))
    moved = model([both[0], both[1] + 1])
    assert np.abs(moved - model(both)).max() > 1e-3


class Looking(keras.layers.Layer):
    """A cross-attention of the user's: each position sees the mean of memory."""

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(18, input_shape[-1]), initializer="ones")

    def call(self, x, memory, attention_mask=None, training=False):
        return x + ops.matmul(ops.mean(memory, axis=1, keepdims=True), self.kernel)


def test_a_cross_attention_of_ones_own_looks_at_what_it_likes():
    class Own(layers.DecoderLayer):
        def attention(self, kind, depth, name):
            own = kind is layers.CrossAttention
            return self.sublayer(Looking(), name) if own else super().attention(kind, depth, name)

    both = [x_of(), x_of(7, 18)]
    assert Own(3, 20)(*both).shape == (2, 5, D)
    assert np.abs(Own(3, 20)(both[0], both[1] + 1) - both[0]).max() > 1


def test_memory_of_another_width_has_weights_of_attention():
    both = [x_of(), x_of(7, 18)]
    outputs, weights = layers.CrossAttention(3)(*both)
    assert outputs.shape == (2, 5, D) and weights.shape == (2, 3, 5, 7)


def test_an_object_of_the_users_may_have_the_name_of_a_layer(tmp_path):
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, layers.PrePostProcess("n", name="head")(inputs))
    model.save(tmp_path / "m.keras")
    others = {"head": lambda y, p: y, "layer": lambda y, p: y}
    again = keras.saving.load_model(tmp_path / "m.keras", custom_objects=others)
    np.testing.assert_array_equal(again(x_of()), model(x_of()))
