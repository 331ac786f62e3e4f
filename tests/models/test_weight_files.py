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
@pytest.mark.parametrize("name", ["larger.weights.h5", "larger.weights.json", "larger.keras"])
def test_weights_of_a_larger_model_are_refused_whole(of, into, dtype, name, tmp_path):
    larger, smaller = model(*of, dtype=dtype), model(*into, dtype=dtype)
    path = tmp_path / name
    if name.endswith(".keras"):
        larger.save(path)
    else:
        parts = {"max_shard_size": 1e-5} if name.endswith(".json") else {}
        larger.save_weights(path, **parts)
    before = smaller.get_weights()
    values = larger.count_params()
    with pytest.raises(UserError, match=f"Received: '.*{name}' with {values:,}, those of a la"):
        smaller.load_weights(path)
    larger.load_weights(path)
    for now, then in zip(smaller.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_those_of_a_smaller_one_are_refused_by_keras(tmp_path):
    model("num_hidden_layers=1").save_weights(tmp_path / "smaller.weights.h5")
    with pytest.raises(ValueError):
        model("num_hidden_layers=3").load_weights(tmp_path / "smaller.weights.h5")


@pytest.mark.parametrize("override", ["attention_dropout=0.1", "ema_decay=0.9", "norm_type=batch"])
def test_weights_beside_the_state_of_an_optimizer_are_taken(override, tmp_path):
    trained, other = model(override), model(override)
    trained.compile(keras.optimizers.Adam(0.1), metrics=["accuracy"])
    trained.train_on_batch(BATCH)
    trained.save_weights(tmp_path / "trained.weights.h5")
    other.load_weights(tmp_path / "trained.weights.h5")
    np.testing.assert_array_equal(other(BATCH), trained(BATCH))


class OfTwoOptimizers(t2t_repro.Transformer):
    """As one that is trained against itself has them."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.other_optimizer = keras.optimizers.Adam()


def test_the_state_of_another_optimizer_is_no_weight(tmp_path):
    hparams = t2t_repro.get_hparams("transformer_test", "hidden_size=16")
    made = OfTwoOptimizers.from_hparams(hparams, inputs_vocab_size=23, targets_vocab_size=23)
    made.other_optimizer.build(made.trainable_variables)
    made.save_weights(tmp_path / "own.weights.h5")
    made.load_weights(tmp_path / "own.weights.h5")


def test_a_missing_file_is_named_by_keras(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.weights.h5"):
        model().load_weights(tmp_path / "none.weights.h5")
