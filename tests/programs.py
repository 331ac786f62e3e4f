"""Programs called in this process, and what is called instead of those that they call."""

import sys
from unittest import mock


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


def call(program, *argv):
    """Runs a program, a module of t2t_repro/bin, in this process."""
    with mock.patch.object(sys, "argv", [program.__name__, *argv]):
        program.console()
