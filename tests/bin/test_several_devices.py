"""What evaluates and decodes does so on all devices; two parts of a CPU stand for GPUs here."""

import json
import os
import subprocess
import sys

import pytest

from t2t_repro.training import checkpoints, model_state
from tests import untrained

PROBLEM = "algorithmic_reverse_binary40_test"
PROGRAM = """
import sys

from t2t_repro.models import copies

share = copies.share

def watched(work, items, devices):
    print("shared by", len(devices), file=sys.stderr)
    return share(work, items, devices)

copies.share = watched
from t2t_repro.bin import decoder, evaluator, trainer

name, *sys.argv = sys.argv[1:2] + sys.argv[1:]
{"decoder": decoder, "eval": evaluator, "trainer": trainer}[name].console()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run, model = untrained.run_on(folder, PROBLEM)
    model_state.save(run.checkpoints_dir, model, checkpoints.State(step=3))
    (folder / "in").write_text("".join(f"{'0 1 ' * (n % 7)}1\n" for n in range(300)))
    return run


def call(run, *argv):
    """Runs a program; returns what it said on stderr."""
    command = [sys.executable, "-c", PROGRAM, *argv, f"--output_dir={run.path}"]
    environment = os.environ | {"KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


SPLITS = "Warning: --worker_gpu=2 splits the CPU into 2 parts, as no GPU is found"


def test_the_decoder(trained):
    folder = trained.path.parent
    flags = ["decoder", f"--decode_from_file={folder / 'in'}", "--decode_hparams=batch_size=32"]
    one = call(trained, *flags, f"--decode_to_file={folder / 'one'}", "--worker_gpu=1")
    two = call(trained, *flags, f"--decode_to_file={folder / 'two'}", "--worker_gpu=2")
    assert SPLITS not in one and SPLITS in two and "shared by 2\n" in two
    assert (folder / "two").read_bytes() == (folder / "one").read_bytes()
    assert len((folder / "one").read_text().splitlines()) == 300


def test_the_evaluation_of_a_run(trained):
    found = []
    for number in (1, 2):
        said = call(trained, "eval", f"--worker_gpu={number}")
        assert (SPLITS in said) == (number == 2) and f"shared by {number}\n" in said
        found.append(json.loads((trained.path / "eval-dev-3.json").read_text())["metrics"])
    assert found[1] == pytest.approx(found[0], rel=1e-6) and found[0]["loss"] > 0


def test_the_schedule_that_evaluates(trained):
    said = call(trained, "trainer", "--schedule=evaluate", "--worker_gpu=2")
    assert SPLITS in said and "shared by 2\n" in said
    rows = (trained.path / "metrics.jsonl").read_text().splitlines()
    (row,) = [row for row in map(json.loads, rows) if row["kind"] == "eval"]
    said = call(trained, "eval", "--worker_gpu=1")
    metrics = json.loads((trained.path / "eval-dev-3.json").read_text())["metrics"]
    assert row["loss"] == pytest.approx(metrics["loss"], rel=1e-6)
