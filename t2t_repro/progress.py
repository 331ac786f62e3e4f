"""How far a long piece of work is, on stderr: a bar, the rate, the time left."""

import contextlib
import sys
from collections.abc import Callable, Iterator

Advance = Callable[[int], None]


@contextlib.contextmanager
def byte_bar(doing: str, total: int | None, done: int = 0) -> Iterator[Advance]:
    """Says what is done and gives a function to call with the bytes that were done since.

    Where stderr is no terminal, the line that says what is done is all.

    Args:
        doing: such as "Downloading URL to PATH"; printed as a line of its own.
        total: the number of bytes; None: unknown.
        done: those of an earlier run.
    """
    print(doing, file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich import console, progress  # slow to load, and needed by few

    columns = (
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as bars:
        task = bars.add_task(doing, total=total, completed=done)
        yield lambda count: bars.advance(task, count)
