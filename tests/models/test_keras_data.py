"""What Keras hands over: ids and weights of the right kind, or one line that says what is wrong."""

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro.errors import UserError
from t2t_repro.models.keras_data import as_batch, check_arrays

X = np.array([[5, 6, 1], [7, 1, 0]], "int32")
Y = np.array([[5, 6, 1, 0], [7, 8, 9, 1]], "int32")


@pytest.mark.parametrize("name, x, y", [("inputs", X - 1, Y), ("targets", X, Y - 100)])
def test_ids_are_not_negative(name, x, y):
    least = min(x.min(), y.min())
    with pytest.raises(UserError, match=f"Expected {name} to be ids of at least 0.*: {least}. Pad"):
        as_batch(x, y)


@pytest.mark.parametrize("data", [(X, Y), ((X, Y),), ({"inputs": X, "targets": Y},)])
def test_ids_have_a_row_in_their_table(data):
    check_arrays(*data, sizes={"inputs": 8, "targets": 10})
    for name, size in (("inputs", 7), ("targets", 9)):
        message = f"Expected {name} to be ids below {size}, the model's {name}_vocab_size. Rec"
        with pytest.raises(UserError, match=message):
            check_arrays(*data, sizes={"inputs": 8, "targets": 10, name: size})


@pytest.mark.parametrize("name, x, y", [("inputs", X + 90, Y), ("targets", X, Y - 100)])
def test_ids_are_checked_in_tensors_and_in_batches_too(name, x, y):
    told = []

    class Batches(keras.utils.PyDataset):
        num_batches = 1

        def __getitem__(self, index):
            return {"inputs": x, "targets": y}

        def on_epoch_end(self):
            told.append("end")

    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=23, targets_vocab_size=23)
    model.compile("sgd")
    tensors = {"inputs": keras.ops.convert_to_tensor(x), "targets": keras.ops.convert_to_tensor(y)}
    for data in (Batches(), tensors):
        for call in (model.fit, model.evaluate, model.predict):
            with pytest.raises(UserError, match=f"Expected {name} to be ids"):
                call(data, verbose=0)
    x, y = X, Y
    model.fit(Batches(), validation_data=Batches(), verbose=0)
    assert told and np.isfinite(model.evaluate(Batches(), verbose=0))
    assert model.predict(Batches(), verbose=0).shape == (2, 4, 23)


def test_predict_refuses_batches_of_several_lengths_at_the_first_that_differs():
    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=23, targets_vocab_size=23)
    model.compile("sgd", run_eagerly=keras.backend.backend() == "tensorflow")

    def batches(*lengths):
        yield from (({"inputs": X, "targets": Y[:, :length]},) for length in lengths)

    seen = []
    own = keras.callbacks.LambdaCallback(
        on_predict_batch_end=lambda batch, logs: seen.append(batch)
    )
    message = r"of one length, .*: logits \(2, 23\) behind \(3, 23\). Pad all .*predict_on_batch"
    for given in (own, [own], keras.callbacks.CallbackList([own])):
        with pytest.raises(UserError, match=message):
            model.predict(batches(3, 2, 4), verbose=0, callbacks=given)
        assert model.predict(batches(3, 3, 3), verbose=0, callbacks=given).shape == (6, 3, 23)
        assert seen == [0, 1, 0, 1, 2]
        seen.clear()


def test_rows_of_different_lengths_are_named():
    class Ragged:
        dtype, shape, to_tensor = "int32", (2, None), None

    with pytest.raises(UserError, match="0"):
        as_batch(X, Ragged())


@pytest.mark.parametrize(
    "ids, received",
    [
        (np.array(["a dog", "b"]), "<U5 .2,.."),
        (np.array([[1, 2], [3]], object), "object .2,.."),
        (np.array([["a"], ["b"]], object), "object .2, 1.."),
    ],
)
def test_text_and_rows_of_several_lengths_are_named(ids, received):
    message = f"inputs to be int32 .B, length.. Received: {received} An encoder .* padded with 0"
    with pytest.raises(UserError, match=message):
        check_arrays(ids, Y)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 1), ()])
def test_weights_of_another_shape_are_named(shape):
    with pytest.raises(UserError, match="sample_weight"):
        check_arrays(X, Y, np.ones(shape))


@pytest.mark.parametrize("size", [0, 1, 10.5, "10", True])
def test_the_size_of_a_vocabulary_is_a_whole_number(size):
    hparams = t2t_repro.get_hparams("transformer_test")
    with pytest.raises(UserError, match=f"whole numbers of at least 2.* Received: {size!r}"):
        t2t_repro.Transformer(hparams, inputs_vocab_size=9, targets_vocab_size=size)


def test_a_sets_name_is_no_configuration():
    with pytest.raises(UserError, match="transformer_test"):
        t2t_repro.Transformer("transformer_test", inputs_vocab_size=9, targets_vocab_size=9)


def test_a_dtype_of_none_is_that_of_the_hparams():
    hparams = t2t_repro.get_hparams("transformer_test", "activation_dtype=float16")
    for given in ({}, {"dtype": None}):
        model = t2t_repro.Transformer(hparams, 9, 9, **given)
        assert model.dtype_policy.name == "mixed_float16"


def test_weights_of_sentences_and_of_targets_take_turns():
    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=23, targets_vocab_size=23)
    model.compile()
    found = [
        model.evaluate(X, Y, sample_weight=weights, verbose=0)
        for weights in (np.ones(2), np.ones(Y.shape), np.ones((2, 1)))
    ]
    assert found == pytest.approx(found[:1] * 3)


@pytest.mark.parametrize("both", [{"inputs": X, "targets": Y}, (X, Y)])
@pytest.mark.parametrize("shape", [(2,), Y.shape])
def test_weights_count_of_data_that_have_their_targets_in_x(both, shape):
    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=23, targets_vocab_size=29)
    model.compile("sgd")
    weights = np.random.default_rng(5).random(shape).astype("float32")
    found = model.evaluate(both, sample_weight=weights, verbose=0)
    assert found == pytest.approx(model.evaluate(X, Y, sample_weight=weights, verbose=0))
    zero = np.zeros(shape, "float32")
    before = model.get_weights()
    for arguments in ({}, {"validation_split": 0.5}, {"validation_data": (both, None, zero)}):
        logs = model.fit(both, sample_weight=zero, verbose=0, **arguments).history
        assert set(map(tuple, logs.values())) == {(0.0,)}
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)

    class OneBatch(keras.utils.PyDataset):
        num_batches = 1

        def __getitem__(self, index):
            return both, None, weights

    assert model.evaluate(OneBatch(), verbose=0) == pytest.approx(found)
