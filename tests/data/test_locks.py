"""Two t2t-datagen on the same folders: one waits for the other, and neither for ever."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from t2t_repro import files, registry
from t2t_repro.data import generate
from t2t_repro.data.job import Job
from tests.data.small_text import PROBLEM, contents, job, write_text

# Holds its folders' locks while it encodes.
HOLDER = """
import sys, time
from t2t_repro import registry
from t2t_repro.data import blocks, generate
from t2t_repro.data.job import Job

def wait(*args):
    print("encoding", flush=True)
    time.sleep(60)

blocks.Spill.write = wait
generate.generate_data(Job(registry.get_problem("text2text_tmpdir"), *sys.argv[1:], num_shards=5))
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def whole(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    generate.generate_data(job(raw, folder))
    return contents(folder)


def test_the_text_is_not_replaced_between_its_making_and_its_use(raw, tmp_path):
    """Another process waits for the folder of the text until the files are there."""
    data, there = tmp_path / "data", []

    def wait():
        folder = os.open(raw, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        there.append((data / f"datagen.{PROBLEM}.json").exists())
        os.close(folder)

    work, other = job(raw, data), threading.Thread(target=wait)
    prepare = work.problem.prepare_raw_files
    data.mkdir()
    work.problem.prepare_raw_files = lambda *of: (other.start(), prepare(*of))
    generate.generate_data(work)
    other.join()
    assert there == [True]


def is_locked(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def test_who_holds_the_text_does_not_wait_for_a_folder_that_another_has_made(raw, tmp_path):
    """The other has made data_dir meanwhile, holds it, and waits for the text."""
    data, text, there, asked = tmp_path / "data", tmp_path / "text", [], []
    shutil.copytree(raw, text)
    work = job(text, data)
    prepare = work.problem.prepare_raw_files

    def other():
        with files.locked([data, text], asked.append):
            there.append((data / f"datagen.{PROBLEM}.json").exists())

    def first(*of):
        if not data.exists():
            data.mkdir()
            thread.start()
            while not asked:  # it waits for the text
                time.sleep(0.01)
        prepare(*of)

    work.problem.prepare_raw_files = first
    thread = threading.Thread(target=other, daemon=True)
    makes = threading.Thread(target=generate.generate_data, args=[work], daemon=True)
    makes.start()
    for each in (makes, thread):
        each.join(timeout=60)
        assert not each.is_alive()
    assert len(there) == 1 and (data / f"datagen.{PROBLEM}.json").exists()


def test_a_folder_of_text_that_was_not_there_is_locked_too(raw, tmp_path):
    text, there = tmp_path / "text", []
    work = job(text, tmp_path / "data")
    prepare = work.problem.prepare_vocabulary
    work.problem.prepare_raw_files = lambda *of: shutil.copytree(raw, text, dirs_exist_ok=True)
    work.problem.prepare_vocabulary = lambda *of: (there.append(is_locked(text)), prepare(*of))
    generate.generate_data(work)
    assert there == [True] and not is_locked(text)


def test_a_folder_of_text_that_cannot_be_made_is_missed_where_it_is_needed(tmp_path):
    (tmp_path / "file").touch()
    problem = registry.get_problem("algorithmic_reverse_binary40_test")
    summary = generate.generate_data(Job(problem, tmp_path / "data", tmp_path / "file"))
    assert summary["splits"]["train"]["examples"]


@pytest.mark.parametrize("shared", ["data", "raw"])
def test_a_second_process_waits_for_the_first(raw, whole, tmp_path, shared):
    data = {"data": tmp_path / "data", "raw": tmp_path / "other"}[shared]
    raws = {"data": tmp_path / "nothing", "raw": raw}[shared]
    raws.mkdir(exist_ok=True)
    for path in raw.iterdir() if shared == "data" else ():
        (raws / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, "-c", HOLDER, tmp_path / "data", raws]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"encoding\n"

        def kill(line):
            said.append(line)
            first.kill()

        generate.generate_data(job(raw, data), report=kill)
    folder = {"data": data, "raw": raw}[shared]
    assert said[0] == f"Waiting for another process that writes to {folder}."
    assert contents(data) == whole
