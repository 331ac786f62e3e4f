"""Two replicas under MirroredStrategy train as one device with the whole batch.

A process of its own makes the two devices, since TensorFlow's are fixed once it has started.
"""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training import distribution


def train(replicas: int) -> dict:
    """Returns the losses of three steps, the tokens of each, and the norms of the weights after."""
    import tensorflow as tf

    from t2t_repro import Transformer, get_hparams
    from t2t_repro.training import checkpoints, optimizers

    hparams = get_hparams(
        "transformer_test",
        "num_hidden_layers=1,layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"
        "learning_rate_schedule=constant,learning_rate_constant=0.01",
    )
    keras.utils.set_random_seed(3)
    strategy = distribution.strategy(replicas)
    with distribution.scope(strategy):
        model = Transformer.from_hparams(hparams, inputs_vocab_size=11, targets_vocab_size=13)
        model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=False)
    random = np.random.default_rng(5)

    def generate():
        for length in (5, 7, 6):
            inputs = random.integers(2, 11, (6, length)).astype("int32")
            targets = random.integers(2, 13, (6, length + 1)).astype("int32")
            targets[3:, -2:] = 0  # the replicas see unequal numbers of real tokens
            yield {"inputs": inputs, "targets": targets}

    spec = tf.TensorSpec([None, None], tf.int32)
    signature = {"inputs": spec, "targets": spec}
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    step = distribution.step_function(model, strategy)
    batches = list(distribution.batches(dataset, strategy))
    return {
        "tokens": [distribution.count_tokens(batch) for batch in batches],
        "losses": [step(batch) for batch in batches],
        "norms": {
            name: float(np.linalg.norm(np.asarray(variable)))
            for name, variable in checkpoints.named_weights(model).items()
        },
    }


def main() -> None:
    import tensorflow as tf

    (device,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(device, two)
    try:
        distribution.strategy(3)
        refusal = ""
    except UserError as error:
        refusal = str(error)
    print(json.dumps({"one": train(1), "two": train(2), "refusal": refusal}))


@pytest.fixture(scope="module")
def trained():
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    root = os.path.dirname(os.path.dirname(distribution.__file__))
    environment["PYTHONPATH"] = os.path.dirname(root)
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_two_replicas_train_as_one(trained):
    one, two = trained["one"], trained["two"]
    assert one["tokens"] == two["tokens"] == [6 * 6 - 6, 6 * 8 - 6, 6 * 7 - 6]
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert two["norms"] == pytest.approx(one["norms"], rel=1e-5)


def test_more_replicas_than_devices_are_refused(trained):
    expected = (
        "--worker_gpu between 1 and 2, the CPU devices that TensorFlow sees here. Received: 3."
    )
    assert expected in trained["refusal"]


def test_one_device_needs_no_strategy():
    assert distribution.strategy(1) is None


def test_another_backend_spreads_by_itself(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match="--worker_gpu=1 under the JAX backend.*Received: 2"):
        distribution.strategy(2)


if __name__ == "__main__":
    main()
