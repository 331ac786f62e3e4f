"""Properties of the whole model that no stored number explains."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro import Transformer
from t2t_repro.config import HParams

TINY = HParams(
    hidden_size=12,
    num_hidden_layers=2,
    num_heads=3,
    filter_size=20,
    layer_preprocess_sequence="n",
    layer_postprocess_sequence="da",
    label_smoothing=0.1,
    initializer="uniform_unit_scaling",
    initializer_gain=1.0,
    shared_embedding_and_softmax_weights=True,
)
BATCH = {
    "inputs": np.array([[3, 4, 5, 1, 0], [6, 1, 0, 0, 0]], "int32"),
    "targets": np.array([[7, 8, 1], [9, 1, 0]], "int32"),
}


def tiny(**changes) -> Transformer:
    keras.utils.set_random_seed(5)
    hparams = dataclasses.replace(TINY, **changes)
    return Transformer.from_hparams(hparams, inputs_vocab_size=17, targets_vocab_size=17)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_keeps_logits_in_float32_and_near(dtype):
    exact, model = tiny(), tiny(activation_dtype=dtype)
    model.set_weights(exact.get_weights())
    logits = model(BATCH)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    np.testing.assert_allclose(logits, exact(BATCH), atol=0.1)
    assert np.abs(np.asarray(logits) - np.asarray(exact(BATCH))).max() > 1e-5


class WithLength(Transformer):
    """Tells the length of a source from the encoder's outputs."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.length = keras.layers.Dense(1)

    def process_memory(self, memory, inputs, training=False):
        if training:
            real = ops.sum(ops.cast(inputs != 0, memory.dtype), axis=1)
            self.add_loss(ops.mean(ops.square(self.length(memory[:, 0])[:, 0] - real)))
        return memory + 1.0


def test_a_class_of_ones_own_sees_the_memory_once():
    model = WithLength.from_hparams(TINY, inputs_vocab_size=17, targets_vocab_size=17)
    model.compile(keras.optimizers.SGD(0.01), run_eagerly=True)
    logits, bias = np.array(model(BATCH)), model.length.bias
    loss, _ = model.loss_of(BATCH)
    (added,) = model.losses
    assert float(loss) > float(added) > 0
    model.train_on_batch(BATCH)
    assert np.array(bias) > 0
    model.process_memory = lambda memory, inputs, training: memory
    assert np.abs(model(BATCH) - logits).max() > 0.1


def loss_and_gradients(model, loss):
    weights = [variable.value for variable in model.trainable_weights]
    with tf.GradientTape() as tape:
        value = loss()
    return value, [tf.convert_to_tensor(g) for g in tape.gradient(value, weights)]


@pytest.mark.parametrize(
    "dtype, tolerance, scale",  # 400: logits hundreds apart, of which a probability underflows
    [("float32", 1e-5, 1.0), ("bfloat16", 0.05, 1.0), ("float32", 1e-4, 400.0)],
)
def test_the_loss_without_logits_is_that_of_the_logits(dropout_off, dtype, tolerance, scale):
    hparams = dataclasses.replace(TINY, activation_dtype=dtype, **dropout_off)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=31, targets_vocab_size=31)
    table = model.softmax.embeddings
    table.assign(table * scale)
    assert (np.min(ops.softmax(model(BATCH))) == 0.0) == (scale > 1)
    plain, expected = loss_and_gradients(
        model,
        lambda: model.compute_loss(x=BATCH, y_pred=model(BATCH, training=True), training=True),
    )
    lean, gradients = loss_and_gradients(model, lambda: model.loss_of(BATCH)[0])
    np.testing.assert_allclose(lean, plain, rtol=1e-5)
    for got, want in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max() + 1e-9)
