"""t2t-trainer and t2t-decoder under JAX in a process that cannot import TensorFlow.

A run goes on under the other backend as well. Another process, for a backend cannot be changed.
"""

import contextlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from t2t_repro.bin import trainer
from tests.training.runs import JAX, arrays, assert_same, said_by

pytestmark = pytest.mark.slow

PROBLEM = "algorithmic_reverse_binary40_test"
# A rate by which three steps move the weights by far more than what is compared may differ by.
RATE = "learning_rate_schedule=constant,learning_rate_constant=0.01"
FIXED = f"num_hidden_layers=1,use_fixed_batch_size=true,{RATE}"
PLAIN = f"{FIXED},attention_dropout=0,layer_prepostprocess_dropout=0,relu_dropout=0"
BUCKETS = "num_hidden_layers=1,length_bucket_step=1.5,batch_size=60"
DROPPING = f"{BUCKETS},attention_dropout=0.3,ema_decay=0.9"
PROGRAM = """
import json, pathlib, sys

sys.modules.update(tensorflow=None, tensorflow_text=None)  # whoever imports them fails
from t2t_repro.bin import decoder, evaluator, trainer
from t2t_repro.training import distribution

class Told(distribution.CompilePool):
    def program(self, batch):
        found = super().program(batch)
        return lambda *data: (print("a program made ahead is used"), found(*data))[1]

plainly = distribution.compile_ahead
for name, ahead, flags in json.loads(pathlib.Path("jobs").read_text()):
    distribution.compile_ahead = plainly if not ahead else (
        lambda data, _, steps, say: Told([shape for _, shape in data.shares], 2, say)
    )
    {"decoder": decoder, "evaluator": evaluator, "trainer": trainer}[name].console(flags)
"""


def training(run: str, steps: int, hparams: str, *flags: str) -> list[str]:
    """Returns the flags of t2t-trainer for a run."""
    return [
        f"--problem={PROBLEM}",
        "--hparams_set=transformer_test",
        "--data_dir=data",
        f"--output_dir={run}",
        f"--train_steps={steps}",
        "--log_step_count_steps=1",
        "--local_eval_frequency=2",
        f"--hparams={hparams}",
        *(flags or ["--eval_steps=1"]),
    ]


def jobs():
    """Yields what is done under JAX: (program, whether steps are compiled ahead, flags)."""
    alone, two = "--schedule=train", "--worker_gpu=2"
    yield "trainer", False, training("straight", 6, DROPPING, two, "--eval_steps=1")
    for steps in (4, 6):
        yield "trainer", True, training("stopped", steps, DROPPING, alone, two)
    for name in ("one", "tensorflow-jax"):
        yield "trainer", False, training(name, 3, f"{PLAIN},batch_size=12")
    yield "trainer", False, training("two", 3, f"{PLAIN},batch_size=6", alone, two)
    yield "evaluator", False, ["--output_dir=one", two, "--eval_steps=1"]
    greedy = "--decode_hparams=beam_size=1,extra_length=4"
    files = ["--output_dir=one", "--decode_from_file=in", greedy]
    yield "decoder", False, [*files, "--decode_to_file=out"]
    yield "decoder", False, [*files, "--decode_to_file=out-two", two]


def train_by_tensorflow(folder: pathlib.Path, run: str) -> None:
    with contextlib.chdir(folder):
        trainer.console(training(run, 3, f"{PLAIN},batch_size=12"))


def copy_without_the_last_step(folder: pathlib.Path, source: str, target: str) -> None:
    shutil.copytree(folder / source, folder / target)
    shutil.rmtree(folder / target / "checkpoints" / "ckpt-3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_reversals) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("jax")
    write_reversals(folder / "data", PROBLEM, 300)
    (folder / "in").write_text("0 1 1\n1 0\n")
    train_by_tensorflow(folder, "tensorflow")
    copy_without_the_last_step(folder, "tensorflow", "tensorflow-jax")
    (folder / "jobs").write_text(json.dumps(list(jobs())))
    said = said_by("-c", PROGRAM, cwd=folder, **JAX, JAX_NUM_CPU_DEVICES="2")
    (folder / "said").write_text(said)
    return folder


def weights(folder, run, step):
    return arrays(folder / run / "checkpoints" / f"ckpt-{step}")


def rows(folder, run, kind):
    lines = (folder / run / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def losses(folder, run):
    return [row["loss"] for row in rows(folder, run, "train")]


def test_a_stopped_run_ends_as_one_that_never_stopped(folder):
    """Its programs are made ahead, the other's as batches come; that one is evaluated, too."""
    said = (folder / "said").read_text()
    begun = re.findall(r"(\d+) batch shapes, 2 at", said)
    assert len(begun) == 2 and int(begun[0]) > 2
    assert said.count("a program made ahead is used") == 6
    assert len(losses(folder, "straight")) == 6
    assert losses(folder, "stopped") == losses(folder, "straight")
    assert_same(*(weights(folder, run, 6) for run in ("straight", "stopped")))


def test_it_evaluates_on_the_way_and_at_the_end(folder):
    found = rows(folder, "straight", "eval")
    assert [row["step"] for row in found] == [2, 4, 6]
    for row in found:
        assert 0 < row["loss"] < 10 and 0 <= row["accuracy"] <= 1
    assert rows(folder, "stopped", "eval") == []


def test_a_run_goes_on_under_the_other_backend(folder):
    copy_without_the_last_step(folder, "one", "one-tensorflow")
    train_by_tensorflow(folder, "one-tensorflow")
    for whole, other in {"tensorflow": "tensorflow-jax", "one": "one-tensorflow"}.items():
        assert losses(folder, other) == pytest.approx(losses(folder, whole), rel=1e-5)
        expected = weights(folder, whole, 3)
        for name, value in weights(folder, other, 3).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)
        mine, its = (rows(folder, run, "eval")[-1]["loss"] for run in (other, whole))
        assert mine == pytest.approx(its, rel=1e-5)


def test_two_devices_evaluate_and_decode_as_one(folder):
    found = json.loads((folder / "one" / "eval-dev-3-1-batches.json").read_text())
    expected = rows(folder, "one", "eval")[-1]
    assert found["step"] == expected["step"] == 3 and found["sample"] == expected["sample"]
    assert found["metrics"]["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert (folder / "out-two").read_text() == (said := (folder / "out").read_text())
    assert len(said.splitlines()) == 2


def test_two_devices_train_as_one(folder):
    one, two = (losses(folder, run) for run in ("one", "two"))
    assert len(one) == 3 and two == pytest.approx(one, rel=1e-5)
    before = weights(folder, "one", 2)
    moved = [np.abs(w - before[name]).max() for name, w in weights(folder, "one", 3).items()]
    assert max(moved) > 1e-3
    for name, value in weights(folder, "one", 3).items():
        np.testing.assert_allclose(weights(folder, "two", 3)[name], value, atol=1e-5)
