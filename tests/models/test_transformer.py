"""Properties of the whole model that no stored number explains."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro import Transformer, registry
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


def test_a_padded_batch_equals_its_sentences_one_by_one():
    model = tiny()
    together = np.asarray(model(BATCH))
    for i, (source, target) in enumerate(((4, 3), (2, 2))):
        alone = {
            "inputs": BATCH["inputs"][i : i + 1, :source],
            "targets": BATCH["targets"][i : i + 1, :target],
        }
        np.testing.assert_allclose(np.asarray(model(alone))[0], together[i, :target], atol=1e-5)


def test_no_target_sees_those_after_it():
    model = tiny()
    changed = {**BATCH, "targets": np.array([[7, 2, 2], [9, 2, 2]], "int32")}
    before, after = np.asarray(model(BATCH)), np.asarray(model(changed))
    np.testing.assert_allclose(before[:, :2], after[:, :2], atol=1e-6)
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def test_config_round_trip_through_json():
    model = tiny()
    config = json.loads(json.dumps(model.get_config()))
    again = Transformer.from_config(config)
    again.build()
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(BATCH), model(BATCH))


def test_vocab_divisor_pads_the_tables():
    model = tiny(vocab_divisor=8)
    assert model.inputs_embedding.vocab_size == 24
    assert model(BATCH).shape == (2, 3, 24)


def test_dropout_is_on_in_training_alone():
    model = tiny(layer_prepostprocess_dropout=0.5)
    still = np.asarray(model(BATCH))
    np.testing.assert_array_equal(model(BATCH), still)
    assert np.abs(np.asarray(model(BATCH, training=True)) - still).max() > 1e-3


def test_symbol_dropout_makes_whole_tokens_padding():
    model = tiny(symbol_dropout=0.99999)
    empty = {**BATCH, "inputs": np.zeros_like(BATCH["inputs"])}
    memory, real, _ = model._encode(BATCH["inputs"], True)
    assert not np.any(real)
    expected, _ = tiny(layer_prepostprocess_dropout=0.0).encode(empty["inputs"])
    assert np.shape(memory) == np.shape(expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_keeps_logits_in_float32_and_near(dtype):
    exact, model = tiny(), tiny(activation_dtype=dtype)
    model.set_weights(exact.get_weights())
    logits = model(BATCH)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    np.testing.assert_allclose(logits, exact(BATCH), atol=0.1)
    assert np.abs(np.asarray(logits) - np.asarray(exact(BATCH))).max() > 1e-5


def test_fit_learns_one_batch():
    model = tiny(layer_prepostprocess_dropout=0.0)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    first = model.train_on_batch(BATCH, return_dict=True)["loss"]
    for _ in range(60):
        last = model.train_on_batch(BATCH, return_dict=True)["loss"]
    assert first > 2 and last < 0.1


def test_train_on_batch_reports_the_loss_before_its_update():
    model = tiny(layer_prepostprocess_dropout=0.0)
    model.compile(optimizer=keras.optimizers.SGD(0.5))
    first = model.train_on_batch(BATCH, return_dict=True)["loss"]
    second = model.train_on_batch(BATCH, return_dict=True)["loss"]
    x = {k: keras.ops.convert_to_tensor(v) for k, v in BATCH.items()}
    third = model.compute_loss(x=x, y_pred=model(x), training=True)
    assert first > second > float(third)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 0.05)])
def test_the_loss_without_logits_is_that_of_the_logits(dropout_off, dtype, tolerance):
    import tensorflow as tf

    hparams = dataclasses.replace(TINY, activation_dtype=dtype, **dropout_off)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=31, targets_vocab_size=31)
    weights = [variable.value for variable in model.trainable_weights]

    def loss_and_gradients(loss):
        with tf.GradientTape() as tape:
            value = loss()
        return value, [tf.convert_to_tensor(g) for g in tape.gradient(value, weights)]

    plain, expected = loss_and_gradients(
        lambda: model.compute_loss(x=BATCH, y_pred=model(BATCH, training=True), training=True)
    )
    lean, gradients = loss_and_gradients(lambda: model.train_loss(BATCH))
    np.testing.assert_allclose(lean, plain, rtol=1e-5)
    for got, want in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max() + 1e-9)


def test_the_loss_of_a_label_whose_probability_underflows(dropout_off):
    import tensorflow as tf

    model = Transformer.from_hparams(
        dataclasses.replace(TINY, **dropout_off), inputs_vocab_size=31, targets_vocab_size=31
    )
    table = model.softmax.embeddings
    table.assign(table * 400.0)  # logits hundreds apart
    weights = [variable.value for variable in model.trainable_weights]
    with tf.GradientTape(persistent=True) as tape:
        logits = model(BATCH, training=True)
        plain = model.compute_loss(x=BATCH, y_pred=logits, training=True)
        lean = model.train_loss(BATCH)
    assert np.min(keras.ops.softmax(logits)) == 0.0
    np.testing.assert_allclose(lean, plain, rtol=1e-5)
    for of_lean, of_plain in zip(
        tape.gradient(lean, weights), tape.gradient(plain, weights), strict=True
    ):
        want = tf.convert_to_tensor(of_plain)
        np.testing.assert_allclose(of_lean, want, atol=1e-4 * np.abs(want).max() + 1e-9)


def test_attention_weights_are_float32_under_bfloat16():
    for weights in tiny(activation_dtype="bfloat16").attention_weights(BATCH).values():
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
        # bfloat16 would miss by up to 2^-9
        np.testing.assert_allclose(np.sum(weights, axis=-1), 1.0, rtol=1e-6)


def test_a_batch_of_padding_has_no_loss():
    model = Transformer.from_hparams(TINY, inputs_vocab_size=31, targets_vocab_size=31)
    padding = {name: np.zeros_like(ids) for name, ids in BATCH.items()}
    assert float(model.train_loss(padding)) == 0


def test_the_summary_knows_every_shape():
    lines: list[str] = []
    model = tiny(shared_embedding_and_softmax_weights=False)
    model.summary(print_fn=lines.append, expand_nested=True)
    summary = "".join(lines)
    assert "?" not in summary and summary.count("(None, None, 12)") == 12 + 4


def test_every_layer_is_built_with_the_model():
    """Else Keras, under JAX, calls the model on the first half of a pair, to build it."""
    assert [layer.name for layer in tiny()._flatten_layers() if not layer.built] == []


@pytest.mark.slow
def test_a_graph_that_decodes_step_by_step_has_a_cache_for_each_layer():
    """Equal tensors of a graph are made one, and caches are written in their place."""
    hparams = registry.get_hparams("transformer_tiny", "num_hidden_layers=3")
    model = Transformer.from_hparams(hparams, inputs_vocab_size=11, targets_vocab_size=13)
    inputs = np.array([[3, 4, 5, 1], [7, 2, 1, 0]], "int32")

    def logits():
        memory, state, found = model.start_decoding(inputs), model.initial_state(2, 1, 5), []
        ids, parents = ops.zeros((2, 1), "int32"), ops.zeros((2, 1), "int32")
        for step in range(5):
            now, state = model.decode_step(ids, parents, step, state, memory)
            ids = ops.full((2, 1), step + 2, "int32")
            found.append(now)
        return ops.stack(found)

    expected = np.asarray(logits())
    np.testing.assert_allclose(tf.function(logits)(), expected, atol=1e-5)
