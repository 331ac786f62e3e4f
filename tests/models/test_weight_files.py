"""What load_weights of a model takes, beyond what Keras looks at."""

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro.errors import UserError

BATCH = {"inputs": np.array([[5, 6, 1]]), "targets": np.array([[7, 1]])}


def model(*overrides, dtype="float32"):
    hparams = t2t_repro.get_hparams("transformer_test", ",".join(["hidden_size=16", *overrides]))
    sizes = dict.fromkeys(("inputs_vocab_size", "targets_vocab_size"), 23)
    made = t2t_repro.Transformer(hparams, **sizes, dtype=dtype)
    made.build()
    return made


@pytest.mark.parametrize(
    "of, into",
    [
        (["num_hidden_layers=3"], ["num_hidden_layers=1"]),
        (["shared_embedding_and_softmax_weights=False"], []),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_of_a_larger_model_are_refused_whole(of, into, dtype, tmp_path):
    larger, smaller = model(*of, dtype=dtype), model(*into, dtype=dtype)
    path = tmp_path / "larger.weights.h5"
    larger.save_weights(path)
    before = smaller.get_weights()
    values = larger.count_params()
    with pytest.raises(UserError, match=f"Received: '.*larger.weights.h5' with {values:,}, tho"):
        smaller.load_weights(path)
    for now, then in zip(smaller.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_those_of_a_smaller_one_are_refused_by_keras(tmp_path):
    model("num_hidden_layers=1").save_weights(tmp_path / "smaller.weights.h5")
    with pytest.raises(ValueError, match="could not be loaded"):
        model("num_hidden_layers=3").load_weights(tmp_path / "smaller.weights.h5")


@pytest.mark.parametrize("override", ["attention_dropout=0.1", "ema_decay=0.9", "norm_type=batch"])
def test_weights_beside_the_state_of_an_optimizer_are_taken(override, tmp_path):
    trained, other = model(override), model(override)
    trained.compile(keras.optimizers.Adam(0.1), metrics=["accuracy"])
    trained.train_on_batch(BATCH)
    trained.save_weights(tmp_path / "trained.weights.h5")
    other.load_weights(tmp_path / "trained.weights.h5")
    np.testing.assert_array_equal(other(BATCH), trained(BATCH))


def test_a_missing_file_is_named_by_keras(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.weights.h5"):
        model().load_weights(tmp_path / "none.weights.h5")
