"""What is frozen is not trained, and is so wherever the model is loaded."""

import copy

import keras
import numpy as np
import pytest

import t2t_repro

BATCH = {
    "inputs": np.array([[5, 6, 7, 1, 0], [8, 1, 0, 0, 0]], "int32"),
    "targets": np.array([[9, 10, 1], [11, 12, 1]], "int32"),
}
HPARAMS = t2t_repro.get_hparams(
    "transformer_base_v1", "hidden_size=12,num_heads=3,filter_size=20,num_hidden_layers=2"
)


def new():
    return t2t_repro.Transformer(HPARAMS, inputs_vocab_size=17, targets_vocab_size=17)


def saved_and_loaded(model, path):
    model.build()
    model.save(path / "model.keras")
    again = keras.saving.load_model(path / "model.keras")
    np.testing.assert_array_equal(model(BATCH), again(BATCH))
    assert [w.path for w in model.weights] == [w.path for w in again.weights]
    return again


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
