"""A batch in parts, side by side, is the step of the whole batch."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import Transformer, get_hparams
from t2t_repro.errors import UserError
from t2t_repro.layers.embedding import SymbolEmbedding
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.models.tensorflow_step import gradients_of
from t2t_repro.training import distribution, optimizers

OFF = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"


class Copier(GuardedModel):
    """Predicts target t from input t, by T2T's loss."""

    def __init__(self):
        super().__init__(name="copier")
        self.table = SymbolEmbedding(13, 7, name="table")
        self.table.build()
        self.built = True

    def call(self, batch, training=False):
        return self.table.logits(self.table(batch["inputs"]))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        weights = tf.cast(x["targets"] != 0, "float32")
        loss = keras.losses.sparse_categorical_crossentropy(x["targets"], y_pred, from_logits=True)
        loss = loss * (1.0 if sample_weight is None else sample_weight)
        return tf.reduce_sum(loss * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)


def batch_of(rows, draw):
    ids = draw.integers(2, 13, (rows, 5)).astype("int32")
    targets = draw.integers(2, 13, (rows, 5)).astype("int32")
    targets[0, 2:] = 0  # the parts have unequal numbers of real targets
    return {"inputs": tf.constant(ids), "targets": tf.constant(targets)}


@pytest.mark.parametrize("rows, parts, eagerly", [(7, 2, False), (7, 3, True), (1, 2, True)])
def test_the_gradients_are_those_of_the_whole(rows, parts, eagerly):
    model = Copier()
    model.compile(optimizer="sgd", run_eagerly=eagerly)
    batch = batch_of(rows, np.random.default_rng(1))
    expected_loss, expected, _ = gradients_of(model, batch)
    model.batch_parts = parts
    step = gradients_of if eagerly else tf.function(gradients_of, autograph=False)
    loss, gradients, finite = step(model, batch)
    assert int(finite) == 1
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
    for value, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(value, tf.convert_to_tensor(other), rtol=1e-5, atol=1e-7)


def test_fit_has_weights_and_metrics_of_all_parts():
    draw = np.random.default_rng(2)
    batch, logs = batch_of(5, draw), []
    weights = draw.random((5, 5)).astype("float32")
    for parts in (1, 2):
        keras.utils.set_random_seed(3)
        model = Copier()
        model.compile(optimizer="sgd", metrics=["accuracy"], run_eagerly=True)
        model.batch_parts = parts
        logs.append(model.train_on_batch(batch, sample_weight=weights, return_dict=True))
    assert logs[0] == pytest.approx(logs[1], rel=1e-6)
    assert set(logs[0]) == {"loss", "accuracy"}


def test_a_strategy_of_one_device_makes_the_same_steps():
    logs, batch = [], batch_of(5, np.random.default_rng(6))
    for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["cpu:0"])):
        with strategy.scope():
            keras.utils.set_random_seed(3)
            model = Copier()
            model.compile(optimizer="sgd")
        data = tf.data.Dataset.from_tensors(batch)
        logs.append(model.fit(data, epochs=3, verbose=0).history["loss"])
    assert logs[0] == pytest.approx(logs[1], rel=1e-6) and logs[0][2] < logs[0][0]


def test_parts_on_several_devices_are_refused():
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        model = Copier()
        model.compile(optimizer="sgd", run_eagerly=True)
    model.batch_parts = 2
    batch = batch_of(4, np.random.default_rng(3))
    with pytest.raises(UserError, match="batch_parts"):
        model.fit(tf.data.Dataset.from_tensors(batch), verbose=0)


@pytest.mark.parametrize("parts", [0, 2.0])
def test_what_is_no_number_of_parts_is_refused(parts):
    model = Copier()
    model.compile(optimizer="sgd")
    model.batch_parts = parts
    with pytest.raises(UserError, match=f"batch_parts to be a whole number.* Received: {parts}"):
        model.train_on_batch(batch_of(3, np.random.default_rng(3)))


def test_a_copy_has_as_many_parts():
    model = Transformer(get_hparams("transformer_test"), 13, 17)
    assert "batch_parts" not in model.get_config()
    model.batch_parts = 2
    assert copy.deepcopy(model).batch_parts == 2
    assert keras.models.clone_model(model).batch_parts == 2


@pytest.mark.slow
def test_the_transformers_losses_are_those_of_whole_batches():
    losses = []
    for parts in (1, 2):
        keras.utils.set_random_seed(3)
        hparams = get_hparams("transformer_test", f"{OFF},learning_rate_warmup_steps=4")
        model = Transformer.from_hparams(hparams, inputs_vocab_size=13, targets_vocab_size=13)
        model.compile(optimizer=optimizers.from_hparams(hparams))
        model.batch_parts = parts
        step, draw = distribution.step_function(model), np.random.default_rng(4)
        losses.append([step(batch_of(1 + number % 4, draw)) for number in range(20)])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
