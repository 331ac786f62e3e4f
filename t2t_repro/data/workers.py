"""Processes that work on blocks of samples. The results come in order, however many they are."""

import collections
import concurrent.futures
import concurrent.futures.process
import itertools
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from t2t_repro import imports, process
from t2t_repro.errors import UserError

_AHEAD = 2  # blocks given to each process before the first result is needed
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields the items in lists of `size`; the last may be shorter."""
    items = iter(items)
    while block := list(itertools.islice(items, size)):
        yield block


class Workers:
    """Some processes, which start when they are needed. Use it by `with`: they end with it.

    Args:
        processes: how many; with 1, everything runs in this process.
    """

    def __init__(self, processes: int):
        self._processes = processes
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._jobs = itertools.count()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def map(self, function: Callable[[Any], _Result], blocks: Iterable) -> Iterator[_Result]:
        """Yields function(block) for each block, in order; only a few blocks are in memory.

        One block alone is worked on in this process.

        Args:
            function: is pickled; a process keeps it, with all that it stores in itself, to the end.
            blocks: are pickled.

        Raises:
            UserError: if a process was killed, as the system does when memory runs out.
        """
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        blocks = itertools.chain(first, blocks)
        if self._processes == 1 or len(first) < 2:
            yield from map(function, blocks)
            return
        pool, job = self._started(), next(self._jobs)
        waiting: collections.deque[concurrent.futures.Future] = collections.deque()
        try:
            for block in blocks:
                if len(waiting) == _AHEAD * self._processes:
                    yield waiting.popleft().result()
                with process.defer_signals():  # it may start a process
                    waiting.append(pool.submit(_work, job, function, block))
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                f"Expected {self._processes} processes to work to the end. Received: one of them "
                "was killed, as the system does when memory runs out. Give the same command again "
                "with a smaller --num_concurrent_processes."
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def _started(self) -> concurrent.futures.ProcessPoolExecutor:
        if self._pool is None:
            with process.defer_signals():
                self._pool = concurrent.futures.ProcessPoolExecutor(
                    self._processes, process.SPAWN, _begin
                )
        return self._pool


_FUNCTIONS: dict[int, Callable] = {}  # in a process: {job: its function}


def _begin() -> None:
    """Runs first in each process: Ctrl-C is the parent's, and without it there is no work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.end_with_parent()
    imports.quiet_tensorflow()


def _work(job: int, function: Callable, block: Any) -> Any:
    return _FUNCTIONS.setdefault(job, function)(block)
