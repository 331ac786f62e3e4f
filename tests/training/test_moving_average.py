"""The moving average of the weights: its numbers, and where it takes their place."""

import keras
import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.training import checkpoints, distribution, optimizers
from t2t_repro.training.checkpoints import WEIGHTS
from tests.training.runs import arrays, assert_same

DECAY = 0.6
GATHERED = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 3}


def optimizer_of(ema_decay=DECAY, **changes):
    rate = {"learning_rate_schedule": "constant", "learning_rate_constant": 0.05}
    return optimizers.from_hparams(HParams(ema_decay=ema_decay, **rate, **changes))


@pytest.fixture
def averaging(make_model):
    """Returns a factory of Ciphers whose optimizer averages."""

    def make(seed=0, **changes):
        model = make_model(seed)
        model.compile(optimizer=optimizer_of(**changes))
        return model

    return make


def averages_of(model):
    of = checkpoints.averages(model)
    return {name: np.array(of[id(v)]) for name, v in checkpoints.weights(model).items()}


def test_before_the_first_step_a_checkpoint_has_the_weights(averaging):
    model = averaging()
    saved = checkpoints.snapshot(model)[WEIGHTS]
    assert_same(saved, model)
    model.optimizer.iterations.assign(8)  # as of a training that went on elsewhere
    for weight in model.trainable_variables:
        weight.assign(weight + 1)
    checkpoints.begin_averages(model)
    assert_same(saved, checkpoints.snapshot(model)[WEIGHTS])


def test_until_the_first_update_of_gathered_gradients_the_average_is_the_weights(
    averaging, make_batches
):
    model, batches = averaging(**GATHERED), iter(make_batches())
    begun, step = arrays(model), distribution.step_function(model)
    for updates in (0, 0, 1):
        step(next(batches))
        with checkpoints.averaged(model):  # as samples are written, before anything is saved
            averages = arrays(model)
        assert_same(averages, checkpoints.snapshot(model)[WEIGHTS])
        for name, value in averages.items():
            assert np.array_equal(begun[name], value) == (not updates), name


@pytest.mark.parametrize(
    "changes, batches", [({}, 1), ({"optimizer": "adafactor"}, 1), (GATHERED, 3)]
)
def test_it_is_the_recursion_with_a_decay_that_begins_low(changes, batches):
    """One of updates, of `batches` batches each."""
    variable = keras.Variable(np.array([[1.0, -2.0], [3.0, 0.5]], "float32"))
    optimizer = optimizer_of(**changes)
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
    averaging, make_batches, train, new_run
):
    def go(model, run, *, until=8, **more):
        train(model, make_batches(), run, train_steps=until, **more)
        return model

    straight, stopped, seen = new_run("straight"), new_run("stopped"), []
    plain = go(averaging(ema_decay=0.0), new_run("plain"))
    model = go(averaging(), straight, seen=seen)
    go(averaging(), stopped, until=5)
    resumed = go(averaging(seed=5), stopped)
    saved = arrays(straight.checkpoints_dir / "ckpt-8")
    assert_same(plain, model)  # averaging changes no step
    assert_same(plain, resumed)
    for found in (saved, seen[-1], averages_of(resumed)):
        assert_same(averages_of(model), found)
    trained = arrays(model)
    assert any(np.abs(saved[name] - trained[name]).max() > 1e-3 for name in saved)
    loaded = averaging(seed=7)
    checkpoints.load_weights(loaded, stopped.path)
    assert_same(loaded, saved)
