"""t2t-datagen killed and started again, and on several processes: always the same bytes."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from t2t_repro.data import blocks, generate, local
from t2t_repro.errors import UserError
from tests.data.small_text import PROBLEM, contents, job, run, write_text

SUMMARY = f"datagen.{PROBLEM}.json"

# Kills itself when a function is called for the so-many-th time.
DYING = """
import os, signal, sys
from t2t_repro import registry
from t2t_repro.data import blocks, generate
from t2t_repro.data.job import Job
from t2t_repro.text import vocabulary_size

where, count, raw, data, overwrite = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
blocks.SAMPLES = 7
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
    monkeypatch.setattr(blocks, "SAMPLES", 7)
    monkeypatch.setattr(blocks, "TEXTS", 20)


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
        ("blocks.MakeFrames.__call__", 6, 0),
        ("blocks.FinishFile.__call__", 3, 2),
        ("generate._write_summary", 2, 5),  # all training files have their names
        ("blocks.MakeFrames.__call__", 14, 5),  # in the dev split
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
    kill("blocks.MakeFrames.__call__", 14, raw, tmp_path, "overwrite")
    assert not list(tmp_path.glob("*-dev-*-of-00001"))  # none of the old text
    run(raw, tmp_path)
    assert contents(tmp_path) == whole


def test_a_vocabulary_of_other_text_is_made_anew_and_files_are_named(raw, tmp_path):
    text, data, fresh = (tmp_path / name for name in ("text", "data", "fresh"))
    shutil.copytree(raw, text)
    kill("blocks.MakeFrames.__call__", 1, text, data)
    assert list(data.glob("vocab.*.subwords"))
    (text / "targets.train.txt").write_text((raw / "targets.train.txt").read_text().upper())
    run(text, data)
    run(text, fresh)
    assert contents(data) == contents(fresh)
    shutil.copytree(raw, text, dirs_exist_ok=True)
    (data / f"{PROBLEM}-dev-00000-of-00001").unlink()
    with pytest.raises(UserError, match=r"targets.train.txt.*--overwrite"):
        run(text, data)


def test_a_full_disk_is_named_and_leaves_no_unfinished_file(raw, whole, tmp_path, monkeypatch):
    real = open

    def full(path, mode):
        return real("/dev/full" if "00001-of" in path else path, mode, buffering=0)

    with monkeypatch.context() as patch:
        patch.setattr(local, "open", full, raising=False)
        with pytest.raises(OSError) as caught:
            run(raw, tmp_path)
    assert caught.value.filename == str(tmp_path) and not list(tmp_path.glob("*incomplete"))
    run(raw, tmp_path)
    assert contents(tmp_path) == whole


def test_an_error_in_a_sample_leaves_no_unfinished_file(raw, tmp_path, monkeypatch):
    def bad(self, sample):
        raise UserError("a bad sample")

    monkeypatch.setattr(blocks.Statistics, "add", bad)
    with pytest.raises(UserError):
        run(raw, tmp_path)
    assert not list(tmp_path.glob("*incomplete"))
    assert json.loads((tmp_path / SUMMARY).read_text())["splits"] == {}
