import contextlib
import json
import os
import subprocess
import sys

import pytest

from t2t_repro.decoding.journal import JOURNAL, growing
from t2t_repro.files import INCOMPLETE

# Writes 4 pieces of 3 lines in a child, which dies at the system call of a number, before it or
# after it, and goes on in another child; prints, for each number, what both left. It is a program
# of its own so that the children share no threads with the tests.
PROGRAM = """
import json, os, pathlib, signal, sys
from t2t_repro.decoding.journal import growing

CALLS = os.fsync, os.replace, os.unlink

def child(folder, fatal, after):
    calls = 0

    def deadly(function):
        def call(*args):
            nonlocal calls
            calls += 1
            if calls == fatal and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            function(*args)
            if calls == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
        return call

    os.fsync, os.replace, os.unlink = map(deadly, CALLS)
    said = []
    with growing([folder + "/a", folder + "/b"], {"job": 5}, said.append) as files:
        for piece in range(files.lines // 3, 4):
            assert files.state == (piece - 1 if piece else None)
            files.add([f"{piece}\\u00fc\\n" * 3, f"b{piece}\\n" * 3], 3, piece)
    os._exit(len(said))

def wait(*arguments):
    process = os.fork()
    if not process:
        try:
            child(*arguments)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

codes, number = [-9], 0
while codes[0] == -9:
    number += 1
    for after in (False, True):
        folder = f"{sys.argv[1]}/{number}-{after}"
        codes = [wait(folder, number, after), wait(folder, 0, False)]
        left = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        print(json.dumps([codes, left]))
"""
WHOLE = {
    "a": "".join(f"{i}\u00fc\n" * 3 for i in range(4)),
    "b": "".join(f"b{i}\n" * 3 for i in range(4)),
}


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_full_disk_is_told_by_the_name_of_the_file(tmp_path):
    program = """
import resource, sys
from t2t_repro.decoding.journal import growing
try:
    with growing([sys.argv[1] + "/text"], {}, print) as files:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        for _ in range(9):
            files.add(["x" * 1000], 1)
except OSError as error:
    print(error.filename)
"""
    command = [sys.executable, "-c", program, tmp_path]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.stdout == f"{tmp_path}/text{INCOMPLETE}\n", said


def test_a_kill_at_any_call_of_the_system_changes_nothing(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *killed, whole, again = map(json.loads, done.stdout.splitlines())
    assert len(killed) >= 2 * 20
    assert killed == [[[-9, 0], WHOLE]] * len(killed)
    assert whole == again == [[0, 0], WHOLE]


@pytest.fixture
def parts(tmp_path):
    """Six lines of a job that failed behind them."""
    with pytest.raises(ZeroDivisionError), growing([tmp_path / "a"], {"n": 1}, print) as files:
        files.add(["one\n" * 6], 6, {"seen": 2})
        raise ZeroDivisionError
    return tmp_path


def ended(folder, job):
    """What was said, how many lines counted, and what the file holds."""
    said = []
    with growing([folder / "a"], job, said.append) as files:
        lines = files.lines
        files.add(["two\n"], 1)
    return said, lines, contents(folder)["a"]


def test_what_lies_behind_the_journal_is_cut_off(parts):
    with open(parts / "a.incomplete", "a") as file:
        file.write("torn")
    assert ended(parts, {"n": 1}) == ([], 6, "one\n" * 6 + "two\n")
    assert list(contents(parts)) == ["a"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "a.incomplete.json cannot be read"),
        ("[]", "a.incomplete.json cannot be read"),
        ('{"job": {"n": 1}, "lines": 6}', "a.incomplete.json cannot be read"),
        (None, "it has no journal"),
        ("cut", "it has been cut"),
        ("other", "it was made with another m, n"),
    ],
)
def test_remains_that_do_not_count(parts, content, reason):
    job = {"n": 2, "m": 3} if content == "other" else {"n": 1}
    if content == "cut":
        os.truncate(parts / "a.incomplete", 5)
    elif content is None:
        (parts / f"a{JOURNAL}").unlink()
    elif content != "other":
        (parts / f"a{JOURNAL}").write_text(content)
    said, lines, text = ended(parts, job)
    assert said == [f"{parts / 'a.incomplete'} is of no use, {reason}. Beginning anew."]
    assert (lines, text) == (0, "two\n")


def test_the_journal_is_json(parts):
    told = json.loads((parts / f"a{JOURNAL}").read_text())
    expected = {"job": {"n": 1}, "lines": 6, "bytes": [24], "state": {"seen": 2}, "whole": False}
    assert told == expected


def test_a_folder_is_refused_before_the_work(tmp_path):
    with pytest.raises(IsADirectoryError), growing([tmp_path], {}, print):
        pass


def test_what_passes_through_a_pipe_is_not_gone_on_with(tmp_path):
    pipe, beside = tmp_path / "pipe", tmp_path / "beside"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for error in (KeyboardInterrupt, None):
        with contextlib.suppress(KeyboardInterrupt):
            with growing([pipe, beside], {"job": 5}, pytest.fail) as files:
                assert files.lines == 0 and files.state is None
                files.add(["a\n", "b\n"], 1, "state")
                assert os.read(reader, 100) == b"a\n"
                if error:
                    raise error
        assert beside.exists() == (error is None)
    os.close(reader)
    assert pipe.is_fifo() and sorted(os.listdir(tmp_path)) == ["beside", "pipe"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/file")
    with growing([tmp_path / "link"], {"job": 5}, pytest.fail) as files:
        files.add(["a\n"], 1)
        assert (tmp_path / "folder" / f"file{JOURNAL}").exists()
    assert os.readlink(tmp_path / "link") == "folder/file"
    assert os.listdir(tmp_path / "folder") == ["file"]
