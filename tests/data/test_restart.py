"""t2t-datagen killed and started again, and on several processes: always the same bytes."""

import signal
import subprocess
import sys

import pytest

from t2t_repro.data import generate
from tests.data.small_text import PROBLEM, contents, job, run, write_text

SUMMARY = f"datagen.{PROBLEM}.json"

# Kills itself when a function is called for the so-many-th time.
DYING = """
import os, signal, sys
from t2t_repro import registry
from t2t_repro.data import generate
from t2t_repro.data.job import Job
from t2t_repro.text import vocabulary_size

where, count, raw, data, overwrite = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
generate.SAMPLES = 7
owner, _, name = where.rpartition(".")
owner = eval(owner)
function, calls = getattr(owner, name), []

def dying(*args, **more):
    calls.append(0)
    if len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*args, **more)

setattr(owner, name, dying)
problem = registry.get_problem("text2text_tmpdir")
generate.generate_data(Job(problem, data, raw, num_shards=5, overwrite=bool(overwrite)))
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("raw"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(generate, "SAMPLES", 7)
    monkeypatch.setattr(generate, "TEXTS", 20)


@pytest.fixture(scope="module")
def whole(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    generate.generate_data(job(raw, folder))
    return contents(folder)


def kill(where, count, raw, data, overwrite=""):
    command = [sys.executable, "-c", DYING, where, str(count), raw, data, overwrite]
    assert subprocess.run(command).returncode == -signal.SIGKILL


def test_the_bytes_do_not_depend_on_the_number_of_processes(raw, whole, tmp_path):
    run(raw, tmp_path, 3)
    assert contents(tmp_path) == whole


@pytest.mark.parametrize(
    ("where", "count", "files"),
    [
        ("vocabulary_size.write", 1, 0),
        ("vocabulary_size.os.replace", 1, 0),
        ("generate.MakeFrames.__call__", 6, 0),
        ("generate.finish_file", 3, 2),
        ("generate._write_summary", 2, 5),  # all training files have their names
        ("generate.MakeFrames.__call__", 14, 5),  # in the dev split
        ("generate._write_summary", 4, 6),
    ],
)
def test_after_a_kill_the_same_command_ends_with_the_same_files(
    raw, whole, tmp_path, where, count, files
):
    kill(where, count, raw, tmp_path)
    assert len([path for path in tmp_path.glob("*-of-*") if path.suffix == ""]) == files
    run(raw, tmp_path)
    assert contents(tmp_path) == whole


def test_after_a_kill_overwrite_ends_with_the_same_files(raw, whole, tmp_path):
    run(raw, tmp_path, seed=5)
    kill("generate.MakeFrames.__call__", 14, raw, tmp_path, "overwrite")
    assert not list(tmp_path.glob("*-dev-*-of-00001"))  # none of the old text
    run(raw, tmp_path)
    assert contents(tmp_path) == whole


def test_a_full_disk_is_named_and_leaves_no_unfinished_file(raw, whole, tmp_path, monkeypatch):
    real = open

    def full(path, mode):
        return real("/dev/full" if "00001-of" in path else path, mode, buffering=0)

    with monkeypatch.context() as patch:
        patch.setattr(generate, "open", full, raising=False)
        with pytest.raises(OSError) as caught:
            run(raw, tmp_path)
    assert caught.value.filename == str(tmp_path) and not list(tmp_path.glob("*incomplete"))
    run(raw, tmp_path)
    assert contents(tmp_path) == whole
