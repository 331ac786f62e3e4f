"""Two replicas under MirroredStrategy update as one device that sees the sum of their gradients.

A process of its own makes the two devices, since TensorFlow's are fixed once it has started.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

SHAPES = {"kernel": (5, 3), "bias": (4,), "table": (7, 8)}
CASES = {
    "adam": dict(optimizer="adam"),
    "adam_w": dict(optimizer="adam_w"),
    "multistep_adam": dict(optimizer="multistep_adam", optimizer_multistep_accumulate_steps=3),
    "moving_average": dict(optimizer="adam", ema_decay=0.4),
    "adafactor": dict(optimizer="adafactor", optimizer_adafactor_beta1=0.5),
}


def train(strategy, hparams, start, steps):
    """Returns the variables, or their averages, after each step's gradients: a set a replica."""
    import keras
    import tensorflow as tf

    from t2t_repro.layers.layer import FusedVariable
    from t2t_repro.training import optimizers

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

    for shares in steps:
        if strategy.num_replicas_in_sync == 1:
            step(tuple(tf.constant(sum(parts)) for parts in zip(*shares, strict=True)))
        else:
            step(tuple(distribute(strategy, parts) for parts in zip(*shares, strict=True)))
    if optimizer.use_ema:
        variables = optimizer._model_variables_moving_average
    return [keras.ops.convert_to_numpy(v) for v in variables]


def distribute(strategy, parts):
    import tensorflow as tf

    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


def main():
    """Prints for each case how far it moved and how far two replicas are from one device."""
    import tensorflow as tf

    from t2t_repro.config import HParams

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    random = np.random.default_rng(0)
    start = {n: random.normal(size=s).astype("float32") for n, s in SHAPES.items()}
    steps = [
        [[random.normal(size=s).astype("float32") for s in SHAPES.values()] for _ in range(2)]
        for _ in range(7)
    ]
    result = {}
    for name, changes in CASES.items():
        hparams = HParams(
            learning_rate_schedule="constant",
            learning_rate_constant=0.01,
            clip_grad_norm=3.0,
            weight_decay=0.3,
            **changes,
        )
        one = train(tf.distribute.get_strategy(), hparams, start, steps)
        two = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), hparams, start, steps)
        pairs = list(zip(one, two, start.values(), strict=True))
        result[name] = {
            "moved": min(float(abs(a - c).max()) for a, _, c in pairs),
            "differ": max(float(abs(a - b).max()) for a, b, _ in pairs),
        }
    print(json.dumps(result))


@pytest.fixture(scope="module")
def measured():
    environment = os.environ | {
        "KERAS_BACKEND": "tensorflow",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    child = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr[-3000:]
    return json.loads(child.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_equal_one(measured, case):
    assert measured[case]["moved"] > 0.01
    assert measured[case]["differ"] < 1e-6


if __name__ == "__main__":
    main()
