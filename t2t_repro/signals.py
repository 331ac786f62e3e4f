"""SIGTERM and SIGINT as an orderly end: at once where nothing is to save, else when it is saved.

    with signals.watching():          # a program's whole work
        ...                           # a signal here raises Interrupted
        with signals.deferred():      # steps and files in the making
            ...                       # a signal here only sets signals.received()
            with signals.immediate(): # an evaluation within
                ...
        with signals.held():          # a moment that must be whole, as the start of a process
            ...

A second signal ends the process at once, even while the first waits for a long step. In a process
that another one started, the same signal within two seconds counts once: a terminal or a service
manager sends it to all processes, and the parent hands it on as well.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import types
from collections.abc import Iterator

from t2t_repro.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CONTINUES = "The same command continues."
_TWICE_S = 2.0
_FIRST = b"\n%s: the running step ends and is saved. A second signal leaves at once.\n"
_AT_ONCE, _DEFERRED, _HELD = range(3)


class _Watch:
    """The signals of the block that runs."""

    def __init__(self, then: str) -> None:
        self.received, self.mode, self.then = 0, _AT_ONCE, then

    def handle(self, signum: int, frame: types.FrameType | None) -> None:
        """Runs in the main thread, between two steps of the interpreter."""
        first, self.received = not self.received, self.received or signum
        if first and self.mode == _AT_ONCE:
            raise self.interrupted()

    def interrupted(self) -> Interrupted:
        """Returns the end that the first signal asks for."""
        return Interrupted(self.received, then=self.then)


_watch: _Watch | None = None


def _is_watched_here() -> bool:
    return _watch is not None and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def watching(then: str = CONTINUES) -> Iterator[None]:
    """Turns signals into Interrupted while the block runs; in the main thread only.

    Args:
        then: what to do about the end, for the message; an inner block may say another.
    """
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _watch is not None:
        before_then, _watch.then = _watch.then, then
        try:
            yield
        finally:
            _watch.then = before_then
        return
    _watch = _Watch(then)
    # Python calls a handler when its own code goes on, after a long step; the pipe hears at once.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_leave_at_the_second, args=(reading,), daemon=True).start()
    before = {signum: signal.signal(signum, _watch.handle) for signum in SIGNALS}
    old_pipe = signal.set_wakeup_fd(writing)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_pipe)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        os.close(writing)  # ends the thread
        _watch = None


def take_back() -> None:
    """Puts Python's handlers in again, where a library has put in its own beneath Python.

    TensorFlow does so for SIGTERM when it connects to other workers, and then nobody hears it.
    """
    if threading.current_thread() is threading.main_thread():
        for signum in SIGNALS:
            signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)


def received() -> int:
    """Returns the number of the signal that came while it was deferred; 0: none."""
    return _watch.received if _watch else 0


def deferred() -> contextlib.AbstractContextManager[None]:
    """Lets the block end before a signal has an effect; who asks `received` may end it sooner."""
    return _mode(_DEFERRED)


def immediate() -> contextlib.AbstractContextManager[None]:
    """Raises Interrupted within a deferred block, and for a signal that waits already."""
    return _mode(_AT_ONCE)


def held() -> contextlib.AbstractContextManager[None]:
    """Lets a moment's work be done before a signal has an effect; nothing is said about it."""
    return _mode(_HELD)


@contextlib.contextmanager
def _mode(mode: int) -> Iterator[None]:
    watch = _watch
    if watch is None or not _is_watched_here():
        yield
        return
    before, watch.mode = watch.mode, mode
    try:
        if watch.received and mode == _AT_ONCE:
            raise watch.interrupted()
        yield
    finally:
        watch.mode = before
    if watch.received and before == _AT_ONCE:  # it came too late for anyone who asked
        raise watch.interrupted()


def _leave_at_the_second(reading: int) -> None:
    """Says that the first signal was heard, and ends the process at the second."""
    first, since = 0, 0.0
    while number := os.read(reading, 1):
        signum = number[0]
        # What somebody else handles, such as a server, is not ours.
        if signum not in SIGNALS or not _watch or signal.getsignal(signum) != _watch.handle:
            continue
        if not first:
            first, since = signum, time.monotonic()
            if _watch.mode == _DEFERRED:
                os.write(2, _FIRST % signal.Signals(signum).name.encode())
        elif multiprocessing.parent_process() is None or time.monotonic() - since > _TWICE_S:
            os.write(2, f"stopped by {signal.Signals(signum).name}.\n".encode())
            os._exit(128 + signum)
    os.close(reading)
