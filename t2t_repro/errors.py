"""Errors that a user can fix.

Each message says what was expected, what was received and what to do. Programs print it in one
line without a traceback; a library user catches it as the `ValueError` that it is.
"""

import difflib
import signal
from collections.abc import Iterable, Mapping
from typing import Any


class UserError(ValueError):
    """Something that the user can fix: a wrong name, value, file or combination of them."""


class Interrupted(KeyboardInterrupt):
    """The orderly end of a program by a signal: state is saved.

    Args:
        signum: the signal; the exit code is 128 more, as a shell gives it.
        where: the state in which the program stopped, for the message.
        then: what to do next, for the message.
    """

    def __init__(self, signum: int, where: str = "", then: str = "Run the same command to resume."):
        name = signal.Signals(signum).name
        self.signum = signum
        self.exit_code = 128 + signum
        super().__init__(f"stopped by {name}{where}. {then}".rstrip())


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns "NAME was X, now Y" for each value of `before` that differs now."""
    return [
        f"{k} was {was!r}, now {now.get(k)!r}" for k, was in before.items() if was != now.get(k)
    ]


def suggest(name: str, choices: Iterable[str]) -> str:
    """Returns " Did you mean 'a' or 'b'?" for the choices nearest to `name`, or ""."""
    near = difflib.get_close_matches(name, list(choices), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def unknown(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """Returns the error for a name that is not among `choices`, with the nearest ones.

    Args:
        kind: what the name names, such as "hparam" or "problem".
        name: what was received.
        choices: every name that would be right; all are listed when none is near and they are few.
    """
    choices = sorted(choices)
    near = suggest(name, choices)
    if not near and len(choices) <= 20:
        near = f" Expected one of: {', '.join(choices)}."
    return UserError(f"Unknown {kind}. Received: {name!r}.{near}")
