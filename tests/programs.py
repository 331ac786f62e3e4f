"""Programs that call other programs: called instead of these, and killed on the way."""

import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

ROOT = pathlib.Path(__file__).parents[1]


class Programs:
    """Called instead of the programs; keeps what it was called with.

    A method of a program's name, without t2t-, gets its flags and leaves what the next one needs.
    """

    def __init__(self):
        self.called = []
        self.fails = ""

    def __call__(self, module, name, argv):
        flags = dict(each.removeprefix("--").partition("=")[::2] for each in argv)
        self.called.append((name.removeprefix("t2t-"), flags))
        if name == self.fails:
            return 2
        getattr(self, name.removeprefix("t2t-").replace("-", "_"))(flags)
        return 0

    @property
    def names(self):
        return [name for name, _ in self.called]


def start(folder, command, **env):
    """Runs `python COMMAND` in a folder; returns how it ended."""
    path = os.pathsep.join([str(ROOT / "tests" / "kills"), str(ROOT)])
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder, command):
    """Lets a command run to its end."""
    ended = start(folder, command)
    assert ended.returncode == 0, ended.stdout


def kill_and_finish(folder, command, at):
    """Gives a command again until it ends, killed at writes of each of its programs, once each.

    at: at which writes of a program, such as "1,3".

    Returns how often it was killed.
    """
    kills = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix="kills"))
    for number in range(99):
        ended = start(folder, command, KILLS=str(kills), KILL_AT=at)
        if ended.returncode == 0:
            return number
        assert len(list(kills.iterdir())) == number + 1, ended.stdout  # it ended by a kill
    raise AssertionError(ended.stdout)


def call(program, *argv):
    """Runs a program, a module of t2t_repro/bin, in this process."""
    with mock.patch.object(sys, "argv", [program.__name__, *argv]):
        program.console()
