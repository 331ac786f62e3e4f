"""A program whose output nobody reads does its work."""

import os
import shlex
import subprocess
import sys

import pytest

PROGRAM = """
import pathlib, sys
from t2t_repro import cli
def main(args):
    for number in range(20_000):
        print(f"line {number}", file=getattr(sys, sys.argv[1]))
    pathlib.Path(sys.argv[2]).write_text("done")
cli.run("t2t-test", "", lambda f: None, main, [])
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_work_goes_on_where_the_reader_of_a_pipe_leaves(stream, tmp_path):
    arguments = [sys.executable, "-c", PROGRAM, stream, str(tmp_path / "made")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pipe = getattr(process, stream)
    assert pipe.readline() == b"line 0\n"
    pipe.close()
    other = process.stderr if stream == "stdout" else process.stdout
    assert other.read() == b""
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "made").read_text() == "done"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_work_goes_on_where_the_terminal_is_gone(stream, tmp_path):
    program = PROGRAM.replace("20_000", "200").replace("for number", "input()\n    for number")
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, stream, str(tmp_path / "made")],
        stdin=subprocess.PIPE,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    os.close(ours)
    process.communicate(b"go on\n", timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "made").read_text() == "done"


def test_all_that_is_printed_arrives(tmp_path):
    arguments = [sys.executable, "-c", PROGRAM, "stdout", str(tmp_path / "made")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [f"line {number}" for number in range(20_000)]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_arrives_when_python_writes_it(stream, unbuffered, tmp_path):
    """At once on stderr, and on stdout where Python does not buffer."""
    program = PROGRAM.replace("20_000", "1").replace('write_text("done")', "read_text()")
    os.mkfifo(tmp_path / "pipe")  # it waits there
    process = subprocess.Popen(
        [sys.executable, "-c", program, stream, str(tmp_path / "pipe")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    read = getattr(process, stream)
    os.set_blocking(read.fileno(), False)
    (tmp_path / "pipe").write_text("go on")  # returns when it reads, behind what it printed
    early = read.read()
    assert process.wait(timeout=60) == 0
    if stream == "stderr" or unbuffered:
        assert early == b"line 0\n"


def test_a_stdin_that_is_closed_is_empty():
    program = "import sys; from t2t_repro import streams; streams.prepare(); "
    program += "print(repr(sys.stdin.read()))"
    done = subprocess.run(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} <&-"],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("''\n", "")


def test_a_reader_of_what_is_made_may_leave():
    program = """
from t2t_repro import cli, files
def main(args):
    with files.writing("/dev/stdout") as file:
        for number in range(20_000):
            file.write(f"line {number}\\n")
cli.run("t2t-test", "", lambda f: None, main, [])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"line 0\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
