"""What a model saves: itself, with the layers that were assigned to it, or a reason why not."""

import copy

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro.errors import UserError
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.position import LearnedPositions

BATCH = {
    "inputs": np.array([[5, 6, 7, 1, 0], [8, 1, 0, 0, 0]], "int32"),
    "targets": np.array([[9, 10, 1], [11, 12, 1]], "int32"),
}
HPARAMS = t2t_repro.get_hparams(
    "transformer_base_v1", "hidden_size=12,num_heads=3,filter_size=20,num_hidden_layers=2"
)


class Noted(keras.layers.Layer):
    def call(self, x, training=False):
        return x + 1.0


class Bottleneck(keras.layers.Layer):
    """Keras names what it makes: dense, dense_1, and dense_2 where it is made again."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.narrow, self.wide = keras.layers.Dense(width), keras.layers.Dense(12)

    def call(self, x, training=False):
        return self.wide(self.narrow(x))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


def new(vocab_size=17):
    return t2t_repro.Transformer(HPARAMS, inputs_vocab_size=vocab_size, targets_vocab_size=17)


def saved_and_loaded(model, path, **custom):
    model.build()
    model.save(path / "model.keras")
    again = keras.saving.load_model(path / "model.keras", custom_objects=custom)
    np.testing.assert_array_equal(model(BATCH), again(BATCH))
    assert [w.path for w in model.weights] == [w.path for w in again.weights]
    return again


def feed_forward(model):
    model.encoder.layers[1].ffn.layer = FeedForward(33, name="feed_forward")
    return lambda again: again.encoder.layers[1].ffn.layer.filter_size == 33


def positions(model):
    model.inputs_position = LearnedPositions(32)
    return lambda again: isinstance(again.inputs_position, LearnedPositions)


def of_ones_own(model):
    model.inputs_dropout = Noted()
    return lambda again: isinstance(again.inputs_dropout, Noted)


def order(model):
    model.decoder.layers = model.decoder.layers[::-1]
    return lambda again: [layer.name for layer in again.decoder.layers] == ["layer_1", "layer_0"]


@pytest.mark.parametrize("change", [feed_forward, positions, of_ones_own, order])
@pytest.mark.slow
def test_layers_that_were_assigned_are_saved(change, tmp_path):
    model = new()
    is_there = change(model)
    again = saved_and_loaded(model, tmp_path, Noted=Noted)
    assert is_there(again)
    assert again.softmax is again.inputs_embedding is again.targets_embedding


def test_a_layer_of_ones_own_may_have_layers_that_keras_names(tmp_path):
    model = new()
    model.encoder.layers[1].ffn.layer = Bottleneck(7)
    model.build()
    model.save(tmp_path / "model.keras")
    custom = {"Bottleneck": Bottleneck}
    again = keras.saving.load_model(tmp_path / "model.keras", custom_objects=custom)
    np.testing.assert_array_equal(model(BATCH), again(BATCH))
    assert again.encoder.layers[1].ffn.layer.width == 7


def test_what_was_not_changed_is_what_the_constructor_takes(tmp_path):
    assert "layers" not in saved_and_loaded(new(19), tmp_path).get_config()


def trained(model):
    return {variable.path for variable in model.trainable_variables}


@pytest.mark.parametrize("built", [False, True])
def test_a_layer_that_is_frozen_is_not_trained_and_is_so_wherever_it_is_loaded(built, tmp_path):
    model = new()
    if built:
        model.build()
    model.encoder.trainable = False
    model.encoder.layers[1].trainable = True
    model.build()
    within = {path for path in trained(model) if "/encoder/" in path}
    assert within and all("/encoder/layer_1/" in path for path in within)
    again = saved_and_loaded(model, tmp_path)
    copies = copy.deepcopy(model), keras.models.clone_model(model)
    assert [trained(each) for each in (again, *copies)] == [trained(model)] * 3
    again.encoder.trainable = True
    assert len(trained(again)) == len(again.trainable_variables) > len(trained(model))
    assert "trained" not in again.get_config()


def test_a_layer_is_trained_in_one_that_is_frozen_beside_one_that_was_assigned(tmp_path):
    model = new()
    positions(model)
    model.encoder.trainable = False
    model.encoder.layers[1].trainable = True
    assert trained(saved_and_loaded(model, tmp_path)) == trained(model)


@pytest.mark.parametrize("freeze", ["encoder", "embeddings,decoder"])
def test_what_the_hparams_freeze_may_be_trained_later(freeze, tmp_path):
    hparams = t2t_repro.get_hparams("transformer_test", f"num_hidden_layers=1,freeze={freeze}")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=17, targets_vocab_size=17)
    model.build()
    frozen = trained(model)
    assert trained(saved_and_loaded(model, tmp_path)) == frozen
    part = model.encoder if freeze == "encoder" else model.softmax
    part.trainable = True
    again = saved_and_loaded(model, tmp_path)
    assert trained(again) == trained(model) > frozen


@pytest.mark.parametrize(
    "name, size", [("bytenet_base", "hidden_size=8"), ("lstm_luong_attention", "hidden_size=8")]
)
def test_models_of_other_kinds_are_frozen_too(name, size):
    hparams = t2t_repro.get_hparams(name, f"num_hidden_layers=1,{size}")
    sizes = {"inputs_vocab_size": 17, "targets_vocab_size": 19}
    model = t2t_repro.registry.get_model(hparams.model)(hparams, **sizes)
    model.encoder.trainable = False
    model.build()
    again = type(model).from_config(model.get_config())
    assert trained(again) == trained(model)
    assert not any("encoder" in path for path in trained(model)) and trained(model)


def test_a_layer_that_was_replaced_is_no_longer_the_models():
    model = new()
    positions(model)
    assert model.inputs_position in model.layers
    assert [layer.name for layer in model.layers].count("inputs_positional_embedding") == 0


def drop(model):
    model.encoder.layers[0].ffn.layer.drop = keras.layers.Dropout(0.5)


def extra(model):
    model.extra = keras.layers.Dropout(0.5)


@pytest.mark.parametrize(
    "change, message",
    [
        (drop, "Received: the Dropout 'dropout.*Take a class of your own instead of FeedForward"),
        (extra, "Received: the Dropout.* Take a class of your own that derives from it"),
    ],
)
def test_what_could_not_be_loaded_is_neither_saved_nor_built(change, message, tmp_path):
    model = new()
    change(model)
    with pytest.raises(UserError, match=message):
        model.save(tmp_path / "model.keras")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=message):
        model.build()


def test_a_layer_without_a_configuration_can_be_trained():
    model = new()
    model.inputs_dropout = keras.layers.Lambda(lambda x, training=False: x)
    model.build()
    assert model(BATCH).shape == (2, 3, 17)


def test_a_subclass_keeps_layers_of_its_own(tmp_path):
    class Mine(t2t_repro.Transformer):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            self.more = keras.layers.Dropout(0.5)

    model = Mine(HPARAMS, inputs_vocab_size=17, targets_vocab_size=17)
    assert isinstance(saved_and_loaded(model, tmp_path, Mine=Mine).more, keras.layers.Dropout)


def test_an_item_cannot_be_assigned_and_nothing_once_built():
    model = new()
    with pytest.raises(TypeError):
        model.encoder.layers[0] = model.encoder.layers[1]
    model.build()
    with pytest.raises(ValueError):
        model.inputs_position = LearnedPositions(32)


@pytest.mark.slow
def test_export_takes_ids_and_gives_logits(tmp_path):
    import tensorflow as tf

    model = new()
    model.build()
    model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(served.serve(BATCH), model(BATCH), atol=1e-5)
