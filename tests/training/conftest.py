"""A model small enough to train in a test, with the interface that training needs."""

import dataclasses
import io
import pathlib
import random

import keras
import numpy as np
import pytest
from keras import ops

from t2t_repro import registry
from t2t_repro.models.finite_step import FiniteStepModel
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.log import TrainingLog
from t2t_repro.training.request import Plan
from t2t_repro.training.trainer import Trainer
from tests.data.record_files import write_examples
from tests.training.runs import arrays


class Cipher(FiniteStepModel):
    """Predicts target t from input t alone; learns a substitution in a few steps."""

    def __init__(self, vocab_size=11, width=12, dropout=0.1):
        super().__init__(name="cipher")
        self.embedding = keras.layers.Embedding(vocab_size, width, name="embedding")
        self.dropout = keras.layers.Dropout(dropout, name="dropout")
        self.softmax = keras.layers.Dense(vocab_size, name="softmax")

    def call(self, batch, training=False):
        hidden = self.dropout(self.embedding(batch["inputs"]), training=training)
        return self.softmax(hidden)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        labels = x["targets"]
        real = ops.cast(labels != 0, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(labels, y_pred, from_logits=True)
        return ops.sum(losses * real) / ops.maximum(ops.sum(real), 1.0)


@pytest.fixture
def make_model():
    """Returns a factory of built, compiled Ciphers; weights and dropout follow from the seed."""

    def make(seed=0, learning_rate=0.05, **kwargs):
        keras.utils.set_random_seed(seed)
        model = Cipher(**kwargs)
        model({"inputs": np.ones((1, 1), "int32"), "targets": np.ones((1, 1), "int32")})
        model.compile(optimizer=keras.optimizers.Adam(learning_rate), jit_compile=False)
        return model

    return make


@pytest.fixture
def make_batches():
    """Returns a factory of endless seeded datasets: targets are the inputs under a substitution."""

    def make(seed=0, vocab_size=11):
        import tensorflow as tf

        def generate():
            random = np.random.default_rng(seed)
            cipher = 2 + np.random.default_rng(7).permutation(vocab_size - 2)
            while True:
                size, length = random.integers(3, 6), random.integers(4, 8)
                inputs = random.integers(2, vocab_size, (size, length)).astype("int32")
                targets = cipher[inputs - 2].astype("int32")
                targets[0, -1] = inputs[0, -1] = 0
                yield {"inputs": inputs, "targets": targets}

        spec = tf.TensorSpec([None, None], tf.int32)
        return tf.data.Dataset.from_generator(
            generate, output_signature={"inputs": spec, "targets": spec}
        )

    return make


@pytest.fixture
def new_run(tmp_path):
    """Makes an empty run directory of a name."""

    def make(name):
        run = RunDirectory(tmp_path / name)
        run.path.mkdir()
        return run

    return make


@pytest.fixture
def run(new_run):
    """An empty run directory."""
    return new_run("run")


@pytest.fixture
def train():
    """Trains a model on endless batches; returns the state, the steps evaluated, what was said.

    It takes what `Plan` and `Trainer` do. `seen` gets the weights that each evaluation sees.
    """
    plan_fields = {field.name for field in dataclasses.fields(Plan)}

    def train(model, batches, run, seen=None, log=TrainingLog, writer=None, **settings):
        settings = {
            "train_steps": 10, "local_eval_frequency": 5, "log_step_count_steps": 5, **settings
        }  # fmt: skip
        plan = Plan(**{name: settings.pop(name) for name in plan_fields & settings.keys()})
        stream, evaluations = io.StringIO(), []
        log = log(run, plan.train_steps, plan.log_step_count_steps, stream, writer)

        def evaluate(step, wait):
            evaluations.append(step)
            if seen is not None:
                seen.append(arrays(model))
            wait()
            assert checkpoints.latest(run.path).name == f"ckpt-{step}"
            log.evaluation(step, {"loss": 1.0}, "dev", 0.1)
            return {"loss": 1.0}

        evaluate = settings.pop("evaluate", evaluate)
        evaluate.split, evaluate.sample = "dev", settings.pop("sample", "all")
        settings["evaluate"] = evaluate
        state = Trainer(model, batches.skip, run, plan, log, **settings).train()
        return state, evaluations, stream.getvalue()

    return train


@pytest.fixture
def steps():
    """The rows of a run's metrics.jsonl that are of training."""
    return lambda run: [row for row in run.read_metrics() if row["kind"] == "train"]


@pytest.fixture(scope="session")
def write_reversals():
    """Returns a function that writes the files of an algorithmic problem: digits and their reverse.

    It takes the folder, the problem's name and the number of train examples; dev has 9.
    """

    def write(folder: pathlib.Path, name: str, train: int) -> None:
        folder.mkdir()
        problem, draw = registry.get_problem(name), random.Random(1)
        for split, count in {"train": train, "dev": 9}.items():
            examples = []
            for _ in range(count):
                digits = draw.choices([2, 3], k=draw.randint(3, 12))
                examples.append({"inputs": [*digits, 1], "targets": [*digits[::-1], 1]})
            write_examples(*problem.filepaths(split, str(folder), 1), examples)

    return write
