"""Progress of long work: a changing line on a terminal, elsewhere a line every minute, with the
rate and the time left. At the end a line.

    with progress.report("Reading FILE", total=4_000_000) as advance:
        advance(1_500_000)

    for sample in progress.track(samples, "train", total=29_000, unit="samples"):
        ...

All lines go to stderr, except the last, which goes to `say` of `report`.
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
    """Prints a line on stderr, for messages that are no results."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def report(
    doing: str,
    total: int | None = None,
    unit: str = BYTES,
    *,
    done: int = 0,
    say: Callable[[str], None] = on_stderr,
) -> Iterator[Callable[..., None]]:
    """Shows the progress of a block, and at its end the total and the time.

    Yields `advance(count=1)`, to call with the work done since.

    Args:
        doing: such as "Reading FILE"; "": the last line begins with the amount.
        total: the whole amount; None: unknown.
        unit: such as "sentences".
        done: the part of `total` done by an earlier run.
        say: receives the last line.
    """
    start = shown = time.monotonic()
    counted, terminal = 0, sys.stderr.isatty()
    title = f"{doing}: " if doing else ""

    def line(now: float) -> str:
        all_done, rate = done + counted, counted / (now - start)
        so_far, left = _amount(all_done, unit), ""
        if total and rate:
            so_far = f"{all_done / total:.0%}, {so_far.split()[0]} of {_amount(total, unit)}"
            left = f", {duration(max(total - all_done, 0) / rate)} left"
        return f"{title}{so_far}, {_rate(rate, unit)}{left}"

    def advance(count: int = 1) -> None:
        nonlocal counted, shown
        counted, now = counted + count, time.monotonic()
        if now - shown < (_REFRESH if terminal else _LINE_EVERY):
            return
        shown = now
        if not terminal:
            on_stderr(line(now))
        else:  # what is printed next is written over it
            text = line(now)[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{text}\r", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        if terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    rate = _rate(counted / max(seconds, 1e-9), unit)
    say(f"{title}{_amount(counted, unit)} in {took(seconds)}, {rate}")


def track(
    items: Iterable[_Item], doing: str, total: int | None = None, unit: str = "samples"
) -> Iterator[_Item]:
    """Yields the items, each of which counts 1 in the report of them all."""
    with report(doing, total, unit) as advance:
        for item in items:
            yield item
            advance()


def duration(seconds: float) -> str:
    """Returns "57.4 days", "2h 05m", "3m 07s" or "12s"."""
    seconds = round(seconds)
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:,.1f} days"
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
