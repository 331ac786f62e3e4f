import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = """
    import atexit, sys

    sys.argv = ["{name}"]
    from t2t_repro import cli, errors

    class Torn:
        def __del__(self):
            print("torn down", flush=True)

    torn = Torn()
    torn.itself = torn  # so that only Python's own end lets go of it
    atexit.register(lambda: sys.stdout.write("said last"))

    def main(args):
        {main}

    cli.run("t2t-x", "", lambda flags: None, main, [])
"""


@pytest.mark.parametrize(
    ("name", "main", "code", "said"),
    [
        ("t2t-x", "pass", 0, "said last"),
        ("t2t-x", "raise errors.UserError('no')", 2, "said lasttorn down\n"),
        ("a-library's", "pass", 0, "said lasttorn down\n"),
    ],
)
def test_a_program_that_has_done_everything_ends_at_once(name, main, code, said):
    text = textwrap.dedent(PROGRAM).format(name=name, main=main)
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, said), done.stderr
