"""A fit, evaluate or predict that fails leaves a model as the last good batch left it.

TensorFlow leaves it so by itself; that the others hold under it, too, says that they are right.
"""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_repro

pytestmark = pytest.mark.slow
STOPPED = (KeyboardInterrupt, tf.errors.UnknownError)  # in threads of TensorFlow's it is that
IDS = np.array([[5, 6, 1], [7, 8, 9]], "int32")


class Batches(keras.utils.PyDataset):
    """Four batches, of which one cannot be read."""

    num_batches = 4

    def __init__(self, fails=None):
        super().__init__()
        self.fails = fails

    def __getitem__(self, index):
        if index == self.fails:
            raise KeyboardInterrupt  # as a notebook's cell is stopped
        return {"inputs": IDS, "targets": IDS}


@pytest.fixture
def model():
    """Returns a model whose fit, evaluate and predict have been compiled."""
    hparams = t2t_repro.get_hparams("transformer_test", "num_hidden_layers=1,hidden_size=16")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=23, targets_vocab_size=23)
    model.compile("adam")
    return model


def state(model):
    variables = [*model.trainable_variables, *model.optimizer.variables]
    return [np.array(variable) for variable in variables]


@pytest.mark.parametrize("fails", [0, 2])
@pytest.mark.parametrize("call", ["fit", "evaluate", "predict"])
def test_what_fails_leaves_the_state(model, call, fails):
    model.fit(Batches(), verbose=0, shuffle=False)
    if call != "fit":
        getattr(model, call)(Batches(), verbose=0)
    before = state(model)
    with pytest.raises(STOPPED):
        getattr(model, call)(
            Batches(fails), verbose=0, **({"shuffle": False} if call == "fit" else {})
        )
    unchanged = [np.array_equal(*pair) for pair in zip(before, state(model), strict=True)]
    trained = call == "fit" and fails
    assert all(unchanged) or trained and not any(unchanged[:3])
    after = state(model)
    assert np.isfinite(model.evaluate(Batches(), verbose=0))
    assert model.predict(Batches(), verbose=0).shape == (8, 3, 23)
    assert np.isfinite(model.fit(Batches(), verbose=0).history["loss"]).all()
    assert model.optimizer.iterations == (10 if trained else 8)
    assert all(np.isfinite(values).all() for values in after)


def test_a_first_fit_that_fails_leaves_weights_to_train(model):
    with pytest.raises(STOPPED):
        model.fit(Batches(0), verbose=0)
    assert np.isfinite(model.fit(Batches(), verbose=0).history["loss"]).all()


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="runs under JAX what is here")
def test_under_jax():
    environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-n", "0", "-q", "-m", "slow"), __file__],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
