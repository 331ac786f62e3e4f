"""Two replicas, under MirroredStrategy or on two workers, train as one device with the whole batch.

A process of its own makes the devices, since TensorFlow's are fixed once it has started.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest

from t2t_repro.training import distribution
from t2t_repro.training.devices import ONE

STEPS = 20
TIMEOUT = 600  # seconds; on a machine with nothing else to do it takes some 20
OFF = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
OVERRIDES = f"{OFF},optimizer=multistep_adam,optimizer_multistep_accumulate_steps=3"


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


def batches():
    random = np.random.default_rng(5)
    for step in range(STEPS):
        length = 5 + step % 3
        inputs = random.integers(2, 11, (6, length)).astype("int32")
        targets = random.integers(2, 13, (6, length + 1)).astype("int32")
        targets[3:, -2:] = 0  # the replicas see unequal numbers of real tokens
        yield {"inputs": inputs, "targets": targets}


def data(devices):
    """The batches of a worker: its part of each."""
    import tensorflow as tf

    def mine():
        for batch in batches():
            share = 6 // devices.cluster.size
            first = devices.cluster.index * share
            yield {name: ids[first : first + share] for name, ids in batch.items()}

    spec = tf.TensorSpec([None, None], tf.int32)
    return tf.data.Dataset.from_generator(mine, output_signature={"inputs": spec, "targets": spec})


def train(devices) -> dict:
    """Returns the losses, the tokens of each step, every fifth's norms, and the weights after."""
    from t2t_repro.training import named_variables

    model = build(devices)
    devices.broadcast(model)
    step = distribution.step_function(model, devices)
    tokens, losses, squares = [], [], []
    for batch in distribution.batches(data(devices)):
        tokens += devices.all_reduce([distribution.count_tokens(batch)])
        losses.append(step(batch, None if len(losses) % 5 else squares.append))
    weights = {n: np.asarray(v).tolist() for n, v in named_variables.weights(model).items()}
    squares = [each.tolist() for each in squares]
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
    from t2t_repro.training import model_state, moving_average, named_variables

    model = build(devices, f"{OVERRIDES},ema_decay=0.5")
    saved = model_state.snapshot(model)["weights.npz"]
    with moving_average.in_place(model):
        named = named_variables.weights(model).items()
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
    batch = next(batches())
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
    print(json.dumps({"str": str(two), "seeds": seeds(two), **results}))


def worker() -> None:
    """The program of each of two workers: trains, then goes on until the other one is gone."""
    from t2t_repro.errors import UserError
    from t2t_repro.training import devices

    mine = devices.choose()
    result = train(mine)
    model = build(mine)
    for variable in model.trainable_variables[:1]:
        variable.assign(variable * (0.0 if mine.cluster.is_chief else 5.0))
    result["note"] = mine.broadcast(model, "the chief's" if mine.cluster.is_chief else "mine")
    result["shared"] = float(abs(np.asarray(model.trainable_variables[0])).max())
    result["seeds"] = [np.asarray(variable).tolist() for variable in devices.seed_variables(model)]
    mine.check_alike({"hparams": 1, "data": "same"})
    try:
        mine.check_alike({"hparams": 1, "data": mine.cluster.index, "flags": mine.cluster.index})
    except UserError as error:
        result["differs"] = str(error)
    print(json.dumps(result), flush=True)
    try:
        while True:
            mine.all_reduce([1])
    except UserError as error:
        print(error, flush=True)
        os._exit(2)


def start(program: str, environment: dict[str, str] | None = None) -> subprocess.Popen:
    root = os.path.dirname(os.path.dirname(os.path.dirname(distribution.__file__)))
    own = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": root}
    return subprocess.Popen(
        [sys.executable, __file__, program],
        env=os.environ | own | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def two_addresses() -> list[str]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


@pytest.fixture(scope="module")
def trained():
    process = start("mirrored")
    out, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(out.splitlines()[-1])


def test_a_checkpoint_of_replicas_has_the_moving_average(trained):
    assert len(trained["averaged"]) > 10 and all(trained["averaged"])


@pytest.fixture(scope="module")
def workers():
    """What each of two workers found, and how the first one left after the second was killed."""
    cluster = {"worker": two_addresses()}
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    configs = [json.dumps({"cluster": cluster, "task": task}) for task in tasks]
    processes = [start("worker", {"TF_CONFIG": config}) for config in configs]
    watchdog = threading.Timer(TIMEOUT, lambda: [process.kill() for process in processes])
    watchdog.start()
    try:
        found = []
        for process in processes:
            lines = [process.stdout.readline() for _ in range(2)]
            assert lines[1], process.communicate(timeout=60)[1][-3000:]
            found.append({"said": lines[0], **json.loads(lines[1])})
        processes[1].kill()
        killed = time.monotonic()
        out, _ = processes[0].communicate(timeout=60)
        left = (processes[0].returncode, out, time.monotonic() - killed)
    finally:
        watchdog.cancel()
        for process in processes:
            process.kill()
            process.communicate()
    return {"addresses": cluster["worker"], "found": found, "left": left}


def assert_same(one: dict, two: dict) -> None:
    assert one["tokens"] == two["tokens"] and one["tokens"][:2] == [6 * 6 - 6, 6 * 7 - 6]
    assert len(one["losses"]) == STEPS and one["losses"][-1] < one["losses"][0] - 0.1
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert len(one["squares"]) == STEPS // 5 and np.min(one["squares"]) > 0
    np.testing.assert_allclose(two["squares"], one["squares"], rtol=1e-3)
    assert two["weights"].keys() == one["weights"].keys()
    for name, value in one["weights"].items():
        np.testing.assert_allclose(two["weights"][name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_two_replicas_train_as_one(trained):
    assert_same(trained["one"], trained["two"])
    assert trained["str"] == "2 CPUs"


@pytest.mark.slow
def test_a_loss_of_kerass_is_the_mean_over_all_real_targets(trained):
    one, two = trained["compiled"]
    assert two == pytest.approx(one, rel=1e-5)


@pytest.mark.slow
def test_each_replica_drops_its_own_values(trained):
    assert len(trained["seeds"]) > 1
    for first, second in trained["seeds"]:
        assert first[0] != second[0] and first[1] == second[1]


@pytest.mark.slow
def test_two_workers_train_as_one(trained, workers):
    for found in workers["found"]:
        assert_same(trained["one"], found)
    assert f"waiting for {', '.join(workers['addresses'])}" in workers["found"][1]["said"]
    assert "This is worker 1 of 2" in workers["found"][1]["said"]


@pytest.mark.slow
def test_workers_begin_where_the_chief_stands(workers):
    for found in workers["found"]:
        assert found["note"] == "the chief's" and found["shared"] == 0.0
    chief, other = (found["seeds"] for found in workers["found"])
    assert all(a[0] != b[0] and a[1] == b[1] for a, b in zip(chief, other, strict=True))


@pytest.mark.slow
def test_workers_with_other_settings_are_refused(workers):
    for index, found in enumerate(workers["found"]):
        expected = (
            "the same data on every worker. Received: worker 1 "
            f"({workers['addresses'][1]}) differs from the chief in data, flags. "
            f"Here: {{'data': {index}, 'flags': {index}}}."
        )
        assert expected in found["differs"]


@pytest.mark.slow
def test_a_worker_that_is_gone_stops_the_other(workers):
    code, said, seconds = workers["left"]
    assert code == 2 and seconds < 30
    assert f"Received: worker 1 ({workers['addresses'][1]}) is gone" in said
    assert "start all workers again by the same command: they continue" in said


if __name__ == "__main__":
    {"mirrored": mirrored, "worker": worker}[sys.argv[1]]()
