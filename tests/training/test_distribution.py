"""Two replicas under MirroredStrategy train as one device with the whole batch.

A process of its own makes the devices, since TensorFlow's are fixed once it has started.
"""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import Transformer, get_hparams
from t2t_repro.config import HParams
from t2t_repro.layers.layer import FusedVariable
from t2t_repro.training import checkpoints, devices, distribution, optimizers
from t2t_repro.training.devices import ONE
from tests import forks
from tests.training.runs import arrays

STEPS = 20
OFF = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
OVERRIDES = f"{OFF},optimizer=multistep_adam,optimizer_multistep_accumulate_steps=3"
SHAPES = {"kernel": (5, 3), "bias": (4,), "table": (7, 8)}
CASES = {
    "adam": dict(optimizer="adam"),
    "adam_w": dict(optimizer="adam_w", ema_decay=0.4),
    "multistep_adam": dict(optimizer="multistep_adam", optimizer_multistep_accumulate_steps=3),
    "adafactor": dict(optimizer="adafactor", optimizer_adafactor_beta1=0.5),
}


def build(where, overrides=OVERRIDES):
    hparams = get_hparams(
        "transformer_test",
        "num_hidden_layers=1,learning_rate_schedule=constant,learning_rate_constant=0.01,"
        f"clip_grad_norm=0.5,{overrides}",
    )
    keras.utils.set_random_seed(3)
    with where.scope():
        model = Transformer.from_hparams(hparams, inputs_vocab_size=11, targets_vocab_size=13)
        model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    return model


def batches():
    random = np.random.default_rng(5)
    for step in range(STEPS):
        length = 5 + step % 3
        inputs = random.integers(2, 11, (6, length)).astype("int32")
        targets = random.integers(2, 13, (6, length + 1)).astype("int32")
        targets[3:, -2:] = 0  # the replicas see unequal numbers of real tokens
        yield {"inputs": inputs, "targets": targets}


def train(where) -> dict:
    """Returns the losses, the tokens of each step, every fifth's norms, and the weights after."""
    model = build(where)
    where.broadcast(model)
    step = distribution.step_function(model, where)
    tokens, losses, squares = [], [], []
    for batch in batches():
        tokens += where.all_reduce([int(np.count_nonzero(batch["targets"]))])
        made = step(batch, len(losses) % 5 == 0)
        squares += [] if len(losses) % 5 else [np.asarray(made.squares).tolist()]
        losses.append(made.loss)
    weights = {name: value.tolist() for name, value in arrays(model).items()}
    return {"tokens": tokens, "losses": losses, "squares": squares, "weights": weights}


def seeds(where) -> list:
    """Returns every replica's states of the random numbers, once all have begun."""
    model = build(where, "attention_dropout=0.5")
    where.broadcast(model)
    variables = [variable.value for variable in checkpoints.seed_variables(model)]
    return [[value.numpy().tolist() for value in variable.values] for variable in variables]


def averaged(where) -> list[bool]:
    """Returns whether a checkpoint before the first step has each of the averaged weights."""
    model = build(where, f"{OVERRIDES},ema_decay=0.5")
    saved = checkpoints.snapshot(model)["weights.npz"]
    with checkpoints.averaged(model):
        return [np.array_equal(saved[name], weight) for name, weight in arrays(model).items()]


def compiled(where) -> list[float]:
    """Returns a loss of Keras's, and how far a step by it goes.

    One replica has fewer sentences, and fewer targets in them.
    """
    model = build(where)
    with where.scope():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(1.0), loss=loss)
    batch = next(batches())
    dataset = tf.data.Dataset.from_tensors(batch).unbatch().take(5).batch(5)
    before = model.get_weights()
    evaluated = model.evaluate(dataset, verbose=0)
    model.fit(dataset, verbose=0)
    went = [np.sum(np.square(a - b)) for a, b in zip(before, model.get_weights(), strict=True)]
    return [evaluated, float(sum(went))]


def update(strategy, hparams, start, steps):
    """Returns the variables, or their averages, after each step's gradients: a set a replica."""
    with strategy.scope():
        *others, (last, table) = start.items()
        variables = [keras.Variable(v, dtype="float32", name=n) for n, v in others]
        parts = {"axis": 0, "sizes": (4, 3)}
        variables.append(FusedVariable(table, dtype="float32", name=last, **parts))
        optimizer = optimizers.from_hparams(hparams)
        optimizer.build(variables)

    @tf.function
    def step(gradients):
        strategy.run(lambda g: optimizer.apply(list(g), variables) and None, args=(gradients,))

    def of_replicas(parts):
        if strategy.num_replicas_in_sync == 1:
            return tf.constant(sum(parts))
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    for shares in steps:
        step(tuple(of_replicas(parts) for parts in zip(*shares, strict=True)))
    if optimizer.use_ema:
        variables = optimizer._model_variables_moving_average
    return [keras.ops.convert_to_numpy(v) for v in variables]


def updated() -> dict:
    """Returns for each optimizer how far it moved, and how far two replicas are from one device."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    random, found = np.random.default_rng(0), {}
    sets = [
        {n: random.normal(size=s).astype("float32") for n, s in SHAPES.items()} for _ in range(15)
    ]
    start, *gradients = sets
    gradients = [list(each.values()) for each in gradients]
    steps = list(zip(gradients[::2], gradients[1::2], strict=True))
    shared = dict(learning_rate_schedule="constant", learning_rate_constant=0.01)
    shared |= dict(clip_grad_norm=3.0, weight_decay=0.3)
    for name, changes in CASES.items():
        hparams = HParams(**shared, **changes)
        one = update(tf.distribute.get_strategy(), hparams, start, steps)
        two = update(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), hparams, start, steps)
        moved = min(float(abs(a - c).max()) for a, c in zip(one, start.values(), strict=True))
        differ = max(float(abs(a - b).max()) for a, b in zip(one, two, strict=True))
        found[name] = moved, differ
    return found


def mirrored() -> dict:
    """Returns what one process with two devices finds."""
    two = devices.choose(2)
    found = {"one": train(ONE), "two": train(two), "averaged": averaged(two), "seeds": seeds(two)}
    return found | {"compiled": [compiled(where) for where in (ONE, two)]}


@pytest.fixture(scope="module")
def trained():
    return json.loads(forks.said_by(__file__, "mirrored").splitlines()[-1])


@pytest.fixture(scope="module")
def moves():
    return json.loads(forks.said_by(__file__, "updated").splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_update_as_one_device_that_sees_the_sum_of_their_gradients(moves, case):
    moved, differ = moves[case]
    assert moved > 0.01 and differ < 1e-6


@pytest.mark.slow
def test_two_replicas_train_as_one(trained):
    one, two = trained["one"], trained["two"]
    assert one["tokens"] == two["tokens"] and one["tokens"][:2] == [6 * 6 - 6, 6 * 7 - 6]
    assert len(one["losses"]) == STEPS and one["losses"][-1] < one["losses"][0] - 0.1
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert len(one["squares"]) == STEPS // 5 and np.min(one["squares"]) > 0
    np.testing.assert_allclose(two["squares"], one["squares"], rtol=1e-3)
    assert two["weights"].keys() == one["weights"].keys()
    for name, value in one["weights"].items():
        np.testing.assert_allclose(two["weights"][name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_what_two_replicas_do_beside_steps(trained):
    one, two = trained["compiled"]
    assert two == pytest.approx(one, rel=1e-5)  # a loss of Keras's is the mean over all targets
    # A checkpoint of replicas has the moving average.
    assert len(trained["averaged"]) > 10 and all(trained["averaged"])
    assert len(trained["seeds"]) > 1
    for first, second in trained["seeds"]:  # each drops its own values
        assert first[0] != second[0] and first[1] == second[1]


if __name__ == "__main__":
    print(json.dumps({"mirrored": mirrored, "updated": updated}[sys.argv[1]]()))
