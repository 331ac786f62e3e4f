"""How far long work is: a bar with the rate and the time left on a terminal, elsewhere a line with
them every minute; at the end a line.

    with progress.report("Reading FILE", total=4_000_000) as advance:
        advance(1_500_000)

    for sample in progress.track(samples, "train", total=29_000, unit="samples"):
        ...

Bar and lines are on stderr; the line at the end goes where `report` is told.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

BYTES = "bytes"
_REFRESH = 0.1  # seconds between two movements of a bar
_LINE_EVERY = 60.0  # seconds
_Item = TypeVar("_Item")


class Advance:
    """What `report` yields: called with how much was done since, and with what comes next."""

    def __init__(self, show: Callable[[int, str], None]):
        self.count = 0
        self._show = show
        self._note = ""
        self._shown = 0.0

    def __call__(self, count: int = 1, note: str = "") -> None:
        self.count += count
        self._note = note or self._note
        now = time.monotonic()
        if note or now - self._shown >= _REFRESH:
            self._shown = now
            self._show(self.count, self._note)


def on_stderr(text: str) -> None:
    """Prints a line on stderr, which is for what is not the result."""
    print(text, file=sys.stderr, flush=True)


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
    with _bar(doing, total, unit, done) as show:
        advance = Advance(show)
        yield advance
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


_shown: Any = None  # the display of the outermost report; the reports within are rows of it


def _lines(doing: str, total: int | None, unit: str, done: int) -> Callable[[int, str], None]:
    """Returns what prints how far a report is, once a minute."""
    start = last = time.monotonic()

    def show(count: int, note: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _LINE_EVERY:
            return
        last = now
        rate = count / (now - start)
        if unit:
            parts = [f"{_so_far(done + count, total, unit)}, {_rate(rate, unit)}"]
        else:
            parts = [f"{(done + count) / total:.0%}"] if total else []
        if total is not None and rate:
            parts.append(f"{duration(max(total - done - count, 0) / rate)} left")
        on_stderr(": ".join(filter(None, [doing, ", ".join([*parts, *filter(None, [note])])])))

    return show


def _so_far(done: float, total: float | None, unit: str) -> str:
    if total is None:
        return _amount(done, unit)
    return f"{_amount(done, unit).split()[0]} of {_amount(total, unit)}"


@contextlib.contextmanager
def _bar(
    doing: str, total: int | None, unit: str, done: int
) -> Iterator[Callable[[int, str], None]]:
    """Yields what moves a new row of the display, or prints lines where stderr is no terminal."""
    global _shown
    if not sys.stderr.isatty():
        yield _lines(doing, total, unit, done)
        return
    outer = _shown
    with contextlib.nullcontext(outer) if outer else _display() as display:
        _shown = display
        row = display.add_task(doing, total=total, completed=done, unit=unit, note="")

        def show(count: int, note: str) -> None:
            display.update(row, completed=done + count, note=note, refresh=True)

        try:
            yield show
        finally:
            if outer:
                display.remove_task(row)
            _shown = outer


def _display() -> Any:
    from rich import console, progress  # slow to load, and needed by few

    class Amount(progress.ProgressColumn):
        def render(self, task: progress.Task) -> str:
            unit, done = task.fields["unit"], task.completed
            if not unit:
                return ""
            text = _so_far(done, task.total, unit)
            return f"{text}, {_rate(task.speed, unit)}" if task.speed else text

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        Amount(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}", markup=False),
        console=console.Console(stderr=True),
        refresh_per_second=2,  # beside every movement
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # else what is printed would not reach its file
    )
