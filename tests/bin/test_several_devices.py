"""What evaluates and decodes does so on all devices; two parts of a CPU stand for GPUs here."""

import json
import os
import subprocess
import sys

import pytest

from t2t_repro.training import checkpoints
from tests import untrained

PROBLEM = "algorithmic_reverse_binary40_test"
PROGRAM = """
import sys

from t2t_repro.models import copies

share = copies.map_over_devices

def watched(work, items, devices):
    print("shared by", len(set(devices)), file=sys.stderr)
    return share(work, items, devices)

copies.map_over_devices = watched
import importlib

from t2t_repro.training import devices

choose, there = devices.choose, int(sys.argv[1])
devices.choose = lambda worker_gpu=None, *of: choose(worker_gpu or there, *of)
name, *sys.argv = sys.argv[2:3] + sys.argv[2:]
importlib.import_module("t2t_repro.bin." + name).console()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run, model = untrained.run_on(folder, PROBLEM)
    checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=3))
    (folder / "in").write_text("".join(f"{'0 1 ' * (n % 7)}1\n" for n in range(300)))
    return run


def call(name, *argv, there=1):
    """Runs a program where there are so many devices; returns what it said on stderr."""
    command = [sys.executable, "-c", PROGRAM, str(there), name, *argv]
    environment = os.environ | {"KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def test_the_decoder(trained):
    folder = trained.path.parent
    flags = [
        f"--output_dir={trained.path}",
        f"--decode_from_file={folder / 'in'}",
        "--decode_hparams=batch_size=32",
    ]
    one = call("decoder", *flags, f"--decode_to_file={folder / 'one'}", "--worker_gpu=1")
    two = call("decoder", *flags, f"--decode_to_file={folder / 'two'}", "--worker_gpu=2")
    assert "shared by 1\n" in one and "shared by 2\n" in two
    assert (folder / "two").read_bytes() == (folder / "one").read_bytes()
    assert len((folder / "one").read_text().splitlines()) == 300


def test_the_evaluation_of_a_run(trained):
    found = []
    for number in (1, 2):
        said = call("evaluator", f"--output_dir={trained.path}", f"--worker_gpu={number}")
        assert f"shared by {number}\n" in said
        found.append(json.loads((trained.path / "eval-dev-3.json").read_text())["metrics"])
    assert found[1] == pytest.approx(found[0], rel=1e-6) and found[0]["loss"] > 0


def test_the_schedule_that_evaluates(trained):
    said = call("trainer", f"--output_dir={trained.path}", "--schedule=evaluate", "--worker_gpu=2")
    assert "shared by 2\n" in said
    rows = (trained.path / "metrics.jsonl").read_text().splitlines()
    (row,) = [row for row in map(json.loads, rows) if row["kind"] == "eval"]
    call("evaluator", f"--output_dir={trained.path}")
    metrics = json.loads((trained.path / "eval-dev-3.json").read_text())["metrics"]
    assert row["loss"] == pytest.approx(metrics["loss"], rel=1e-6)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A run that writes text, with two checkpoints."""
    folder = tmp_path_factory.mktemp("text")
    lines = [f"word {number} and {number % 7}" for number in range(40)]
    untrained.write_pairs(folder, {"inputs": lines, "targets": lines[::-1]})
    run, model = untrained.run_on(folder, "text2text_tmpdir")
    for step in (3, 5):
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
    (folder / "in").write_text("".join(f"{line}\n" for line in lines))
    return run


@pytest.mark.parametrize(
    "name, flags",
    [
        (
            "translate_all",
            ["--model_dir={run}", "--source={folder}/in", "--translations_dir={folder}/out"],
        ),
        ("avg_all", ["--tune", "--model_dir={run}", "--n=2", "--beam_sizes=1", "--alphas=0.6"]),
    ],
)
def test_what_takes_all_that_there_are(translator, name, flags):
    where = {"run": translator.path, "folder": translator.path.parent}
    said = call(name, *(flag.format(**where) for flag in flags), there=2)
    assert "shared by 2\n" in said
