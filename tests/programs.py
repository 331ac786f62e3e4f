"""Programs that call other programs: called instead of these, and killed on the way."""

import os
import pathlib
import random
import signal
import subprocess
import sys
from unittest import mock

ROOT = pathlib.Path(__file__).parents[1]
_MINUTES = 20  # that a program may take on a busy machine


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


def start(folder, command):
    """Starts `python -m COMMAND` in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder, command):
    """Lets a command run to its end; returns what it said."""
    out, _ = (process := start(folder, command)).communicate(timeout=60 * _MINUTES)
    assert process.returncode == 0, out
    return out


def kill_and_finish(folder, command, seconds):
    """Kills and stops a command on its way, each time begun again; returns what the last said.

    seconds: what the command takes from its beginning, so that the first kill meets it half-way on
    a machine of any speed.
    """
    draw, kills = random.Random(5), 0
    for signum in [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]:
        process = start(folder, command)
        try:
            process.communicate(timeout=seconds * draw.uniform(0.3, 0.7))
        except subprocess.TimeoutExpired:
            process.send_signal(signum)
            process.communicate(timeout=120)  # until its program has ended as well
            assert process.returncode in (-signal.SIGKILL, 143)
            kills += 1
    assert kills
    return finish(folder, command)


def call(program, *argv):
    """Runs a program, a module of t2t_repro/bin, in this process."""
    with mock.patch.object(sys, "argv", [program.__name__, *argv]):
        program.console()
