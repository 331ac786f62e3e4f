"""The moving average of the weights: its numbers, and where it takes their place."""

import keras
import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import (
    checkpoints,
    distribution,
    optimizers,
)

DECAY = 0.6


def hparams(**changes) -> HParams:
    return HParams(learning_rate_schedule="constant", learning_rate_constant=0.05, **changes)


@pytest.fixture
def averaging(make_model):
    """Returns a factory of Ciphers whose optimizer averages."""

    def make(seed=0, ema_decay=DECAY, **changes):
        model = make_model(seed)
        settings = hparams(ema_decay=ema_decay, **changes)
        model.compile(optimizer=optimizers.from_hparams(settings))
        return model

    return make


def test_before_the_first_step_a_checkpoint_has_the_weights(averaging, weights):
    model = averaging()
    arrays = checkpoints.snapshot(model)
    for name, value in weights(model).items():
        np.testing.assert_array_equal(arrays["weights.npz"][name], value)
    model.optimizer.iterations.assign(8)  # as of a training that went on elsewhere
    for weight in model.trainable_variables:
        weight.assign(weight + 1)
    checkpoints.begin_averages(model)
    again = checkpoints.snapshot(model)
    for name, value in arrays["weights.npz"].items():
        np.testing.assert_array_equal(again["weights.npz"][name], value)


def test_until_the_first_update_of_gathered_gradients_the_average_is_the_weights(
    averaging, make_batches, weights
):
    gathered = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 3}
    model, batches = averaging(**gathered), iter(make_batches())
    begun, step = weights(model), distribution.step_function(model)
    for updates in (0, 0, 1):
        step(next(batches))
        with checkpoints.averaged(model):  # as samples are written, before anything is saved
            averages = {name: np.array(value) for name, value in weights(model).items()}
        saved = checkpoints.snapshot(model)["weights.npz"]
        for name, value in averages.items():
            np.testing.assert_array_equal(saved[name], value)
            assert np.array_equal(begun[name], value) == (not updates), name


@pytest.mark.parametrize(
    "changes, batches",
    [
        ({}, 1),
        ({"optimizer": "adafactor"}, 1),
        ({"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 3}, 3),
    ],
)
def test_it_is_the_recursion_with_a_decay_that_begins_low(changes, batches):
    """One of updates, of `batches` batches each."""
    variable = keras.Variable(np.array([[1.0, -2.0], [3.0, 0.5]], "float32"))
    optimizer = optimizers.from_hparams(hparams(ema_decay=DECAY, **changes))
    optimizer.build([variable])
    (average,) = optimizer._model_variables_moving_average
    expected, random = None, np.random.default_rng(0)
    for n in range(16):
        for _ in range(batches):
            np.testing.assert_array_equal(average, expected if n else np.zeros((2, 2)))
            optimizer.apply([random.standard_normal((2, 2)).astype("float32")], [variable])
        decay = min(DECAY, (1 + n) / (10 + n)) if n else 0.0
        value = np.asarray(variable)
        expected = value if expected is None else decay * expected + (1 - decay) * value
        np.testing.assert_allclose(average, expected, rtol=1e-5)
        expected = np.array(average)
    assert decay == DECAY and np.abs(expected - value).max() > 0.01


def test_without_decay_nothing_is_kept(averaging):
    model = averaging(ema_decay=0.0)
    model.optimizer.build(model.trainable_variables)
    assert checkpoints.averages(model) == {}
    assert not any("average" in variable.path for variable in model.optimizer.variables)


def test_checkpoints_and_evaluations_have_the_average_and_training_goes_on_exactly(
    tmp_path, averaging, make_batches, train, weights
):
    runs = {name: RunDirectory(tmp_path / name) for name in ("plain", "straight", "stopped")}
    for run in runs.values():
        run.path.mkdir()
    plain = averaging(ema_decay=0.0)
    train(plain, make_batches(), runs["plain"], train_steps=8)
    model, seen = averaging(), []
    train(model, make_batches(), runs["straight"], train_steps=8, seen=seen)
    train(averaging(), make_batches(), runs["stopped"], train_steps=5)
    resumed = averaging(seed=5)
    train(resumed, make_batches(), runs["stopped"], train_steps=8)
    averages = checkpoints.averages(model)
    by_name = checkpoints.weights(model)
    saved = checkpoints.read_arrays(runs["straight"].checkpoints_dir / "ckpt-8" / "weights.npz")
    other = checkpoints.averages(resumed)
    others = checkpoints.weights(resumed)
    for name, value in weights(plain).items():
        np.testing.assert_array_equal(by_name[name], value)  # averaging changes no step
        average = np.asarray(averages[id(by_name[name])])
        np.testing.assert_array_equal(saved[name], average)
        np.testing.assert_array_equal(seen[-1][name], average)
        np.testing.assert_array_equal(others[name], value)
        np.testing.assert_array_equal(other[id(others[name])], average)
    assert any(np.abs(saved[name] - by_name[name]).max() > 1e-3 for name in saved)
    loaded = averaging(seed=7)
    checkpoints.load_weights(loaded, runs["stopped"].path)
    for name, value in weights(loaded).items():
        np.testing.assert_array_equal(value, saved[name])
