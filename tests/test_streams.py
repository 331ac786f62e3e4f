"""A program whose output nobody reads does its work."""

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


def test_all_that_is_printed_arrives(tmp_path):
    arguments = [sys.executable, "-c", PROGRAM, "stdout", str(tmp_path / "made")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [f"line {number}" for number in range(20_000)]
