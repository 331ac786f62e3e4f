"""The files of a decoding: their names, what is read of them, and how they grow."""

import contextlib
import json
import os
import subprocess
import sys
import types

import pytest

from t2t_repro.config import HParams
from t2t_repro.decoding import files
from t2t_repro.decoding.files import growing
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.files import INCOMPLETE
from t2t_repro.problem import OutputType


@pytest.mark.parametrize("model", ["transformer", "lstm_seq2seq_attention"])
def test_output_name(model):
    hparams = HParams(model=model, initializer="uniform_unit_scaling")
    run = types.SimpleNamespace(hparams_set="set_a", hparams=hparams, problem="p")
    name = files.output_name("in.txt", run, DecodeHParams())
    assert name == f"in.txt.{model}.set_a.p.beam4.alpha0.6.decodes"
    assert files.output_name(name, run, DecodeHParams()) == name


def test_the_best_translations_of_a_file(tmp_path):
    (tmp_path / "out").write_text("a\tb\n\t\n")
    for settings, lines in (
        ({}, ["a\tb", "\t"]),
        ({"return_beams": True}, ["a", ""]),
        ({"return_beams": True, "beam_size": 1}, ["a\tb", "\t"]),
        ({"return_alignments": True}, ["a", ""]),
    ):
        of = DecodeHParams(**settings)
        assert list(files.best_translations(tmp_path / "out", of)) == lines


@pytest.mark.parametrize(
    "outputs, beside",
    [
        ({"decode_to_file": "out", "decode_json_file": "lines"}, False),
        ({"decode_to_file": "out", "decode_json_file": os.devnull}, True),
        ({"decode_to_file": os.devnull}, True),
    ],
)
def test_a_message_is_not_put_into_a_result(capsys, outputs, beside):
    run = types.SimpleNamespace(problem=types.SimpleNamespace(output_type=OutputType.TEXT))
    job, said = DecodeJob(DecodeRequest(score_file="in", **outputs), DecodeHParams(), run), []
    job._tell("Wrote out", said.append)
    assert said == ["Wrote out"] * beside
    assert capsys.readouterr().out == ("" if beside else "Wrote out\n")


# Writes 4 pieces of 3 lines in a child, which dies at the system call of a number, before it or
# after it, and goes on in another child; prints, for each number, what both left. It is a program
# of its own so that the children share no threads with the tests.
PROGRAM = """
import json, os, pathlib, signal, sys
from t2t_repro.decoding.files import growing

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
    with growing([folder + "/a", folder + "/b"], {"job": 5}, lambda text: None) as found:
        for piece in range(found.lines // 3, 4):
            assert found.state == (piece - 1 if piece else None)
            found.add([f"{piece}\\u00fc\\n" * 3, f"b{piece}\\n" * 3], 3, piece)
    os._exit(0)

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


def test_a_kill_at_any_call_of_the_system_changes_nothing(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *killed, whole, again = map(json.loads, done.stdout.splitlines())
    assert len(killed) >= 2 * 14
    assert killed == [[[-9, 0], WHOLE]] * len(killed)
    assert whole == again == [[0, 0], WHOLE]


def test_a_full_disk_is_told_by_the_name_of_the_file(tmp_path):
    program = """
import resource, sys
from t2t_repro.decoding.files import growing
try:
    with growing([sys.argv[1] + "/text"], {}, print) as found:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        for _ in range(9):
            found.add(["x" * 1000], 1)
except OSError as error:
    print(error.filename)
"""
    command = [sys.executable, "-c", program, tmp_path]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.stdout == f"{tmp_path}/text{INCOMPLETE}\n", said


@pytest.fixture
def parts(tmp_path):
    """Six lines of a job that failed behind them."""
    with pytest.raises(ZeroDivisionError), growing([tmp_path / "a"], {"n": 1}, print) as found:
        found.add(["one\n" * 6], 6, {"seen": 2})
        raise ZeroDivisionError
    return tmp_path


def torn(parts):
    with open(parts / "a.incomplete", "a") as file:
        file.write("torn")


def with_record(text):
    return lambda parts: (parts / "a.incomplete.json").write_text(text)


@pytest.mark.parametrize(
    "change, job, counted",
    [
        (torn, {"n": 1}, 6),
        (with_record(""), {"n": 1}, 0),
        (with_record('{"job": {"n": 1}, "lines": 6}'), {"n": 1}, 0),
        (lambda parts: (parts / "a.incomplete.json").unlink(), {"n": 1}, 0),
        (lambda parts: os.truncate(parts / "a.incomplete", 5), {"n": 1}, 0),
        (lambda parts: None, {"n": 2}, 0),
    ],
)
def test_which_remains_count(parts, change, job, counted):
    change(parts)
    with growing([parts / "a"], job, print) as found:
        assert found.lines == counted and found.state == ({"seen": 2} if counted else None)
        found.add(["two\n"], 1)
    assert (parts / "a").read_text() == "one\n" * counted + "two\n"
    assert os.listdir(parts) == ["a"]


def test_what_passes_through_a_pipe_is_not_gone_on_with(tmp_path):
    pipe, beside = tmp_path / "pipe", tmp_path / "beside"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for error in (KeyboardInterrupt, None):
        with contextlib.suppress(KeyboardInterrupt):
            with growing([pipe, beside], {"job": 5}, pytest.fail) as found:
                assert found.lines == 0 and found.state is None
                found.add(["a\n", "b\n"], 1, "state")
                assert os.read(reader, 100) == b"a\n"
                if error:
                    raise error
        assert beside.exists() == (error is None)
    os.close(reader)
    assert pipe.is_fifo() and sorted(os.listdir(tmp_path)) == ["beside", "pipe"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/file")
    with growing([tmp_path / "link"], {"job": 5}, pytest.fail) as found:
        found.add(["a\n"], 1)
        assert (tmp_path / "folder" / f"file{INCOMPLETE}").exists()
    assert os.readlink(tmp_path / "link") == "folder/file"
    assert os.listdir(tmp_path / "folder") == ["file"]
