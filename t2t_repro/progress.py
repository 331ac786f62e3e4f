"""How far long work is: on a terminal a line that changes, elsewhere a line every minute; each with
the rate and the time left. At the end a line.

    with progress.report("Reading FILE", total=4_000_000) as advance:
        advance(1_500_000)

    for sample in progress.track(samples, "train", total=29_000, unit="samples"):
        ...

All is on stderr but the line at the end, which goes where `report` is told.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

BYTES = "bytes"
_REFRESH, _LINE_EVERY = 0.2, 60.0  # seconds between two lines on a terminal, and elsewhere
_Item = TypeVar("_Item")


def on_stderr(text: str) -> None:
    """Prints a line on stderr, which is for what is not the result."""
    print(text, file=sys.stderr, flush=True)


class Advance:
    """What `report` yields: called with how much was done since, and with what comes next."""

    def __init__(self, doing: str, total: int | None, unit: str, done: int):
        self.count = 0
        self._doing, self._total, self._unit, self._done = doing, total, unit, done
        self._start = self._shown = time.monotonic()
        self._note = ""
        self._terminal = sys.stderr.isatty()
        self._every = _REFRESH if self._terminal else _LINE_EVERY

    def __call__(self, count: int = 1, note: str = "") -> None:
        self.count += count
        self._note = note or self._note
        now = time.monotonic()
        if now - self._shown < self._every:
            return
        self._shown = now
        if not self._terminal:
            on_stderr(self._line(now))
        else:  # what is printed next is written over it
            line = self._line(now)[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{line}\r", end="", file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        rate, done, total = self.count / (now - self._start), self._done + self.count, self._total
        parts = [f"{done / total:.0%}"] if total else []
        if self._unit:
            so_far = _amount(done, self._unit)
            if total is not None:
                so_far = f"{so_far.split()[0]} of {_amount(total, self._unit)}"
            parts.append(f"{so_far}, {_rate(rate, self._unit)}")
        if total is not None and rate:
            parts.append(f"{duration(max(total - done, 0) / rate)} left")
        said = ", ".join(filter(None, [*parts, self._note]))
        return f"{self._doing}: {said}" if self._doing else said


@contextlib.contextmanager
def report(
    doing: str,
    total: int | None = None,
    unit: str = BYTES,
    *,
    done: int = 0,
    say: Callable[[str], None] = on_stderr,
) -> Iterator[Advance]:
    """Shows how far the block is, and says at its end how much was done in what time.

    Args:
        doing: such as "Reading FILE"; "": the line at the end begins with how much was done.
        total: how much there is to do; None: unknown.
        unit: what is counted, such as "sentences"; "": nothing that one would name.
        done: what an earlier run did, of `total`.
        say: receives the line at the end.
    """
    start = time.monotonic()
    advance = Advance(doing, total, unit, done)
    try:
        yield advance
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    text = took(seconds)
    if unit:
        rate = _rate(advance.count / max(seconds, 1e-9), unit)
        text = f"{_amount(advance.count, unit)} in {text}, {rate}"
    say(f"{doing}: {text}" if doing else text)


def track(
    items: Iterable[_Item], doing: str, total: int | None = None, unit: str = "samples"
) -> Iterator[_Item]:
    """Yields the items, each of which counts 1 in the report of them all."""
    with report(doing, total, unit) as advance:
        for item in items:
            yield item
            advance()


def duration(seconds: float) -> str:
    """Returns "2h 05m", "3m 07s" or "12s"."""
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{seconds // 60}m {seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"


def took(seconds: float) -> str:
    """Returns as `duration`, but "9.5 s" below a minute."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def _amount(count: float, unit: str) -> str:
    return f"{count / 1e6:,.1f} MB" if unit == BYTES else f"{count:,} {unit}"


def _rate(rate: float, unit: str) -> str:
    number = f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"
    return f"{_amount(rate, unit) if unit == BYTES else number} a second"
