"""docs/keras.md: its program runs as it stands there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "keras.md").read_text(encoding="utf-8")


def script(name):
    (text,) = re.findall(rf"```python\n(# {name}\n.*?)```", PAGE, re.DOTALL)
    return text


BACKENDS = pytest.mark.parametrize("backend", ["tensorflow", "jax"])


def run(folder, backend, *names):
    """Runs the page's scripts, each in a process of its own; returns what the last one printed."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    environment |= {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    for name in names:
        done = subprocess.run(
            [sys.executable, "-c", script(name)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@BACKENDS
def test_the_program_runs(tmp_path, backend):
    said = run(tmp_path, backend, "train.py", "go_on.py")
    assert (tmp_path / "served" / "saved_model.pb").is_file()
    log = (tmp_path / "log.csv").read_text()
    header, *rows = log.splitlines()
    assert len(rows) == 3 and "val_bleu" in header
    assert (tmp_path / "best.keras").is_file()
    assert re.search(r"^\[.*\]$", said, re.MULTILINE)
    assert "it has ended" in run(tmp_path, backend, "train.py")
    assert (tmp_path / "log.csv").read_text() == log


@pytest.mark.slow
@BACKENDS
def test_the_program_of_ones_own_layers_runs(tmp_path, backend):
    trained, loaded = (run(tmp_path, backend, name) for name in ("own.py", "own_go_on.py"))
    (predicted,) = re.findall(r"^\[\[[^\]]*\]\n \[[^\]]*\]\]$", trained, re.MULTILINE)
    assert loaded.startswith(predicted)
    assert (tmp_path / "own-served" / "saved_model.pb").is_file()
    assert len((tmp_path / "own-log.csv").read_text().splitlines()) == 4
    assert list((tmp_path / "own-logs").glob("events*"))
