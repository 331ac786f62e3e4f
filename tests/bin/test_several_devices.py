"""What evaluates and decodes does so on all devices; two parts of a CPU stand for GPUs here."""

import json

import pytest

from t2t_repro.bin import decoder, evaluator
from tests import forks
from tests.programs import call

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


def on_two(name, *argv, there=1):
    """Runs a program on two devices, asked for, or because there are so many."""
    flags = [] if there == 2 else ["--worker_gpu=2"]
    done = forks.run("-c", PROGRAM, str(there), name, *argv, *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "shared by 2\n" in done.stderr


def test_the_decoder(run, tmp_path):
    (tmp_path / "in").write_text("".join(f"{'0 1 ' * (n % 7)}1\n" for n in range(300)))
    flags = [f"--output_dir={run.path}", f"--decode_from_file={tmp_path / 'in'}"]
    flags.append("--decode_hparams=batch_size=32")
    call(decoder, *flags, f"--decode_to_file={tmp_path / 'one'}", "--worker_gpu=1")
    on_two("decoder", *flags, f"--decode_to_file={tmp_path / 'two'}")
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    assert len((tmp_path / "one").read_text().splitlines()) == 300


def test_the_evaluation_of_a_run_and_the_schedule_that_evaluates(run):
    def metrics():
        return json.loads((run.path / "eval-dev-7.json").read_text())["metrics"]

    call(evaluator, f"--output_dir={run.path}", "--worker_gpu=1")
    found = metrics()
    on_two("evaluator", f"--output_dir={run.path}")
    assert metrics() == pytest.approx(found, rel=1e-6) and found["loss"] > 0
    on_two("trainer", f"--output_dir={run.path}", "--schedule=evaluate")
    rows = (run.path / "metrics.jsonl").read_text().splitlines()
    (row,) = [row for row in map(json.loads, rows) if row["kind"] == "eval"]
    assert row["loss"] == pytest.approx(found["loss"], rel=1e-6)


NAMES = "--source={folder}/in --translations_dir={folder}/out"
TUNE = "--tune --output_dir={folder}/avg --n=2 --beam_sizes=1 --alphas=0.6"


@pytest.mark.parametrize("name, flags", [("translate_all", NAMES), ("avg_all", TUNE)])
def test_what_takes_all_that_there_are(letters, tmp_path, name, flags):
    (tmp_path / "in").write_text("a b\ncab\n" * 20)
    flags = f"--model_dir={letters.path} {flags}".format(folder=tmp_path)
    on_two(name, *flags.split(), there=2)
