"""A run with all regularizers on goes on exactly, and its model is told by its configuration."""

import json

import numpy as np
import pytest

from t2t_repro import Transformer
from t2t_repro.training import checkpoints, distribution, optimizers
from tests.models.test_transformer import BATCH, tiny

ALL_ON = {
    "inputs_word_dropout": 0.2,
    "targets_word_dropout": 0.3,
    "encoder_layerdrop": 0.4,
    "decoder_layerdrop": 0.5,
    "r_drop_alpha": 5.0,
    "ema_decay": 0.9,
    "learning_rate_warmup_steps": 10,
    "num_hidden_layers": 1,
}


def made():
    model = tiny(**ALL_ON)
    model.compile(optimizer=optimizers.from_hparams(model.hparams), run_eagerly=True)
    return model, distribution.step_function(model)


def test_it_goes_on_bit_by_bit(tmp_path):
    model, step = made()
    step(BATCH)
    path = checkpoints.save(tmp_path, model, checkpoints.State(step=1))
    straight = step(BATCH).loss
    other, again = made()
    for variable in other.variables:  # nothing of it may be left
        variable.assign(variable + 1)
    checkpoints.restore(other, path)
    assert again(BATCH).loss == straight
    for weight, expected in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)
    assert len(checkpoints.averages(model)) == len(model.trainable_variables)
    pairs = zip(*(checkpoints.averages(m).values() for m in (model, other)), strict=True)
    for average, expected in pairs:
        np.testing.assert_array_equal(average, expected)


def test_its_configuration_makes_the_same_model():
    model = tiny(**ALL_ON)
    again = Transformer.from_config(json.loads(json.dumps(model.get_config())))
    again.build()
    assert [w.path for w in again.weights] == [w.path for w in model.weights]
    assert len(again.variables) == len(model.variables)  # the seeds too
    assert again.decoder.layerdrop == pytest.approx(0.5)
    assert again.targets_word_dropout.rate == pytest.approx(0.3)
