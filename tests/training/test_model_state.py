import re

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.training import checkpoints, model_state, named_variables
from t2t_repro.training.checkpoints import State


def step(model, seed):
    inputs = np.random.default_rng(seed).integers(2, 11, (3, 5)).astype("int32")
    return model.train_on_batch({"inputs": inputs, "targets": inputs}, return_dict=True)["loss"]


def values(model):
    everything = named_variables.weights(model) | named_variables.of_training(model)
    return {name: np.asarray(variable) for name, variable in everything.items()}


def test_restored_training_goes_on_bit_for_bit(tmp_path, make_model):
    straight = make_model(seed=3)
    for seed in range(3):
        step(straight, seed)
    path = model_state.save(tmp_path, straight, State(step=3, batches=3, extra={"best": 0.5}))
    expected = [step(straight, seed) for seed in range(3, 6)]
    resumed = make_model(seed=99)  # other weights, other dropout: all must come from the files
    state = model_state.restore(resumed, path)
    assert state == State(step=3, batches=3, extra={"best": 0.5})
    assert [step(resumed, seed) for seed in range(3, 6)] == expected
    for name, value in values(straight).items():
        np.testing.assert_array_equal(value, values(resumed)[name], name)


def test_the_checkpoint_holds_weights_slots_and_seeds(tmp_path, make_model):
    path = model_state.save(tmp_path, make_model(), State(step=7))
    assert sorted(p.name for p in path.iterdir()) == ["state.json", "training.npz", "weights.npz"]
    weights = checkpoints.read_arrays(path / "weights.npz")
    assert set(weights) == {"embedding/embeddings", "softmax/kernel", "softmax/bias"}
    training = checkpoints.read_arrays(path / "training.npz")
    # Adam: iterations, learning rate, two slots a weight; one seed, that of dropout.
    assert len(training) == 2 + 2 * 3 + 1 and "seed/0000" in training


def test_a_checkpoint_with_the_feed_forward_layers_earlier_names_is_read(tmp_path):
    def made():
        x = keras.Input((3, 4))
        return keras.Model(x, FeedForward(5, name="feed_forward")(x))

    model, again = made(), made()
    new = {"intermediate_dense": "conv1", "output_dense": "conv2"}
    arrays = {
        f"encoder/{re.sub('|'.join(new), lambda found: new[found[0]], name)}": np.asarray(variable)
        for name, variable in named_variables.weights(model).items()
    }
    assert "encoder/feed_forward/conv1/kernel" in arrays
    path = checkpoints.write(tmp_path, {checkpoints.WEIGHTS: arrays}, State(step=1))
    read = checkpoints.read_arrays(path / checkpoints.WEIGHTS)
    for name, variable in named_variables.weights(again).items():
        variable.assign(read[f"encoder/{name}"])
    x = np.ones((2, 3, 4), "float32")
    np.testing.assert_array_equal(again(x), model(x))


def test_a_snapshot_is_not_changed_by_the_next_step(make_model):
    model = make_model()
    taken = model_state.snapshot(model)
    copies = {file: {n: a.copy() for n, a in arrays.items()} for file, arrays in taken.items()}
    step(model, 1)
    for file, arrays in taken.items():
        for name, value in arrays.items():
            np.testing.assert_array_equal(value, copies[file][name], name)
    assert any(
        not np.array_equal(value, taken["weights.npz"][name])
        for name, value in model_state.snapshot(model)["weights.npz"].items()
    )


def test_a_run_directory_is_understood(tmp_path, make_model):
    assert checkpoints.list_checkpoints(tmp_path / "nothing") == []
    assert checkpoints.latest(tmp_path) is None
    model = make_model(seed=1)
    model_state.save(tmp_path / "checkpoints", model, State(step=5))
    other = make_model(seed=2)
    for path in (tmp_path, tmp_path / "checkpoints", tmp_path / "checkpoints" / "ckpt-5"):
        assert model_state.load_weights(other, path).step == 5
    weights_of_other = named_variables.weights(other)
    for name, variable in named_variables.weights(model).items():
        np.testing.assert_array_equal(np.asarray(variable), np.asarray(weights_of_other[name]))


def test_what_does_not_fit_is_listed(tmp_path, make_model):
    path = model_state.save(tmp_path, make_model(vocab_size=11), State(step=1))
    with pytest.raises(UserError) as caught:
        model_state.load_weights(make_model(vocab_size=13), path)
    text = str(caught.value)
    assert "embedding/embeddings is (11, 12), expected (13, 12)" in text
    assert "softmax/bias is (11,), expected (13,)" in text and "vocabulary" in text
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="other")])
    with pytest.raises(UserError, match="2"):
        model_state.load_weights(other, path)
    layers = [keras.layers.Dense(2, name=f"layer_{i}") for i in range(12)]
    with pytest.raises(UserError, match="7"):
        model_state.load_weights(keras.Sequential([keras.Input((2,)), *layers]), path)


def test_bfloat16_weights_come_back(tmp_path):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, dtype="bfloat16")])
    before = [np.asarray(weight).astype("float32") for weight in model.weights]
    path = model_state.save(tmp_path, model, State(step=1))
    for weight in model.weights:
        weight.assign(weight * 0)
    model_state.load_weights(model, path)
    for old, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, np.asarray(weight).astype("float32"))
