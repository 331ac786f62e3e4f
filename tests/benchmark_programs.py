"""What takes the place of the programs that a benchmark runs, each in a process of its own."""

import pytest

from t2t_repro import cli
from t2t_repro.errors import UserError


def started(benchmark, argv, run):
    """Runs a benchmark's `main` with a command line."""
    name = benchmark.__name__
    define = benchmark.define_flags
    cli.run(name, benchmark.__doc__, define, lambda args: benchmark.main(args, run), argv)


def refused(benchmark, argv, run, capsys):
    """Returns the message with which it ends."""
    with pytest.raises(SystemExit) as stop:
        started(benchmark, argv, run)
    assert stop.value.code == 2
    return capsys.readouterr().err


class Programs:
    """Keeps the commands, and is killed before the one behind so many."""

    def __init__(self, stop_after=10**6):
        self.commands, self.stop_after = [], stop_after

    def __call__(self, command):
        if len(self.commands) == self.stop_after:
            raise UserError("Expected no kill. Received: one.")
        program = command[2].rsplit(".", 1)[1]
        given = dict(flag.lstrip("-").split("=", 1) for flag in command[3:] if "=" in flag)
        self.commands.append((program, given))
        self.ran(program, given)

    def ran(self, program, given):
        """Does what a program leaves; `given`: {flag: value}."""
        raise NotImplementedError
