"""Two replicas under MirroredStrategy train as one device with the whole batch.

A process of its own makes the devices, since TensorFlow's are fixed once it has started.
"""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from t2t_repro.training import distribution
from t2t_repro.training.devices import ONE

STEPS = 20
TIMEOUT = 600  # seconds; on a machine with nothing else to do it takes some 20
OFF = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
OVERRIDES = f"{OFF},optimizer=multistep_adam,optimizer_multistep_accumulate_steps=3"
OTHERS = {  # what else moves the weights: a few steps of each
    "adam": "optimizer=adam,weight_decay=0.3",
    "adam_w": "optimizer=adam_w,weight_decay=0.3",
    "moving_average": "optimizer=adam,ema_decay=0.4",
    "adafactor": "optimizer=adafactor,optimizer_adafactor_beta1=0.5",
}


def build(devices, overrides=OVERRIDES):
    from t2t_repro import Transformer, get_hparams
    from t2t_repro.training import optimizers

    hparams = get_hparams(
        "transformer_test",
        "num_hidden_layers=1,learning_rate_schedule=constant,learning_rate_constant=0.01,"
        f"clip_grad_norm=0.5,{overrides}",
    )
    keras.utils.set_random_seed(3)
    with devices.scope():
        model = Transformer.from_hparams(hparams, inputs_vocab_size=11, targets_vocab_size=13)
        model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    return model


def batches(steps):
    random = np.random.default_rng(5)
    for step in range(steps):
        length = 5 + step % 3
        inputs = random.integers(2, 11, (6, length)).astype("int32")
        targets = random.integers(2, 13, (6, length + 1)).astype("int32")
        targets[3:, -2:] = 0  # the replicas see unequal numbers of real tokens
        yield {"inputs": inputs, "targets": targets}


def train(devices, overrides=OVERRIDES, steps=STEPS) -> dict:
    """Returns the losses, the tokens of each step, every fifth's norms, and the weights after."""
    from t2t_repro.training import checkpoints

    model = build(devices, overrides)
    model.run_eagerly = steps < STEPS  # which takes less than a trace
    devices.broadcast(model)
    step = distribution.step_function(model, devices)
    tokens, losses, squares = [], [], []
    for batch in batches(steps):
        tokens += devices.all_reduce([int(np.count_nonzero(batch["targets"]))])
        made = step(batch, len(losses) % 5 == 0)
        squares += [] if len(losses) % 5 else [np.asarray(made.squares).tolist()]
        losses.append(made.loss)
    named, averages = checkpoints.weights(model), checkpoints.averages(model)
    weights = {n: np.asarray(averages.get(id(v), v)).tolist() for n, v in named.items()}
    return {"tokens": tokens, "losses": losses, "squares": squares, "weights": weights}


def seeds(devices) -> list:
    """Returns every replica's states of the random numbers, once all have begun."""
    from t2t_repro.training.devices import seed_variables

    model = build(devices, "attention_dropout=0.5")
    devices.broadcast(model)
    variables = [variable.value for variable in seed_variables(model)]
    return [[value.numpy().tolist() for value in variable.values] for variable in variables]


def averaged(devices) -> list[bool]:
    """Returns whether a checkpoint before the first step has each of the averaged weights."""
    from t2t_repro.training import checkpoints

    model = build(devices, f"{OVERRIDES},ema_decay=0.5")
    saved = checkpoints.snapshot(model)["weights.npz"]
    with checkpoints.averaged(model):
        named = checkpoints.weights(model).items()
        return [np.array_equal(saved[name], weight) for name, weight in named]


def compiled(devices) -> list[float]:
    """Returns a loss of Keras's, and how far a step by it goes.

    One replica has fewer sentences, and fewer targets in them.
    """
    import tensorflow as tf

    model = build(devices)
    with devices.scope():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(1.0), loss=loss)
    batch = next(batches(1))
    dataset = tf.data.Dataset.from_tensors(batch).unbatch().take(5).batch(5)
    before = model.get_weights()
    evaluated = model.evaluate(dataset, verbose=0)
    model.fit(dataset, verbose=0)
    went = [np.sum(np.square(a - b)) for a, b in zip(before, model.get_weights(), strict=True)]
    return [evaluated, float(sum(went))]


def mirrored() -> None:
    """The program of one process with two devices."""
    from t2t_repro.training import devices

    two = devices.choose(2)
    results = {"one": train(ONE), "two": train(two)}
    results["compiled"] = [compiled(devices) for devices in (ONE, two)]
    results["averaged"] = averaged(two)
    results["others"] = {
        name: [train(devices, f"{OFF},{overrides}", 4) for devices in (ONE, two)]
        for name, overrides in OTHERS.items()
    }
    print(json.dumps({"seeds": seeds(two), **results}))


@pytest.fixture(scope="module")
def trained():
    root = os.path.dirname(os.path.dirname(os.path.dirname(distribution.__file__)))
    own = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_checkpoint_of_replicas_has_the_moving_average(trained):
    assert len(trained["averaged"]) > 10 and all(trained["averaged"])


def assert_same(one: dict, two: dict) -> None:
    assert one["tokens"] == two["tokens"] and one["tokens"][:2] == [6 * 6 - 6, 6 * 7 - 6]
    assert len(one["losses"]) == STEPS and one["losses"][-1] < one["losses"][0] - 0.1
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert len(one["squares"]) == STEPS // 5 and np.min(one["squares"]) > 0
    np.testing.assert_allclose(two["squares"], one["squares"], rtol=1e-3)
    assert two["weights"].keys() == one["weights"].keys()
    for name, value in one["weights"].items():
        np.testing.assert_allclose(two["weights"][name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", OTHERS)
def test_two_replicas_update_as_one_device_that_sees_the_sum_of_their_gradients(trained, name):
    one, two = trained["others"][name]
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    for weight, value in one["weights"].items():
        np.testing.assert_allclose(two["weights"][weight], value, rtol=1e-4, atol=1e-5)


def test_two_replicas_train_as_one(trained):
    assert_same(trained["one"], trained["two"])


def test_a_loss_of_kerass_is_the_mean_over_all_real_targets(trained):
    one, two = trained["compiled"]
    assert two == pytest.approx(one, rel=1e-5)


def test_each_replica_drops_its_own_values(trained):
    assert len(trained["seeds"]) > 1
    for first, second in trained["seeds"]:
        assert first[0] != second[0] and first[1] == second[1]


if __name__ == "__main__":
    mirrored()
