"""SIGTERM and SIGINT as an orderly end: at once where nothing is to save, else when it is saved.

    with signals.watching():          # a program's whole work
        ...                           # a signal here raises Interrupted
        with signals.deferred():      # steps and files in the making
            ...                       # a signal here only sets signals.received()
            with signals.immediate(): # an evaluation within
                ...
        with signals.held():          # a moment that must be whole, as the start of a process
            ...

While modules are imported a signal ends the process at once: they may make of Interrupted whatever
they like, and what is unfinished stays as after a kill. So it does where Python can raise nothing:
in a destructor, or the hook of a fork.

A second signal ends the process at once, even while the first waits for a long step; but what a
service manager or a terminal sends to all processes comes to a child once more by its parent, and
counts once. Every program runs inside `watching`; what it begins within may say by another
`watching` how to go on.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from t2t_repro import start
from t2t_repro.errors import Interrupted
from t2t_repro.start import SIGNALS

CONTINUES = "The same command continues."
_TWICE_S = 2.0  # a parent hands a signal on within this time
_FIRST = b"\n%s: the running step ends and is saved. A second signal leaves at once.\n"


class _Watch:
    """The signals of the block that runs."""

    def __init__(self, then: str) -> None:
        self.received = 0
        self.deferred = False
        self.held = False
        self.then = then

    def handle(self, signum: int, frame: types.FrameType | None) -> None:
        """Runs in the main thread, between two steps of the interpreter."""
        first, self.received = not self.received, self.received or signum
        if first and not self.deferred and not self.held:
            if _is_importing(frame):  # what is raised there may be swallowed
                start.leave(signum)
            raise self.interrupted()

    def interrupted(self) -> Interrupted:
        """Returns the end that the first signal asks for."""
        return Interrupted(self.received, then=self.then)


_watch: _Watch | None = None


@contextlib.contextmanager
def watching(then: str = CONTINUES) -> Iterator[None]:
    """Turns signals into Interrupted while the block runs; in the main thread only.

    Args:
        then: what to do about the end, for the message.
    """
    global _watch
    if _watch is not None or threading.current_thread() is not threading.main_thread():
        with _saying(then):
            yield
        return
    _watch = _Watch(then)
    start.tell(False)
    # Python calls a handler when its own code goes on, after a long step; the pipe hears at once.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_leave_at_the_second, args=(reading,), daemon=True).start()
    before = {signum: signal.signal(signum, _watch.handle) for signum in SIGNALS}
    old_pipe = signal.set_wakeup_fd(writing)
    old_hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_hear_of_ignored, old_hook)
    try:
        yield
    finally:
        sys.unraisablehook = old_hook
        signal.set_wakeup_fd(old_pipe)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        os.close(writing)  # ends the thread
        _watch = None


@contextlib.contextmanager
def _saying(then: str) -> Iterator[None]:
    """Lets the watch that there is, if any, say another `then` while the block runs."""
    watch = _watch
    if watch is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, watch.then = watch.then, then
    try:
        yield
    finally:
        watch.then = before


def take_back() -> None:
    """Puts Python's handlers in again, where a library has put in its own beneath Python.

    TensorFlow does so for SIGTERM when it connects to other workers, and then nobody hears it.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for signum in SIGNALS:
        signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)


def received() -> int:
    """Returns the number of the signal that came while it was deferred; 0: none."""
    return _watch.received if _watch else 0


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Lets the block end before a signal has an effect; who asks `received` may end it sooner."""
    with _mode(deferred=True):
        yield


@contextlib.contextmanager
def immediate() -> Iterator[None]:
    """Raises Interrupted within a deferred block, and for a signal that waits already."""
    with _mode(deferred=False):
        yield


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Lets a moment's work be done before a signal has an effect; nothing is said about it.

    A process of which half is started would complain on its own.
    """
    watch = _watch
    if watch is None or watch.held or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch.held = True
    try:
        yield
    finally:
        watch.held = False
    if watch.received and not watch.deferred:
        raise watch.interrupted()


@contextlib.contextmanager
def _mode(*, deferred: bool) -> Iterator[None]:
    watch = _watch
    if watch is None:
        yield
        return
    before, watch.deferred = watch.deferred, deferred
    try:
        if watch.received and not deferred:
            raise watch.interrupted()
        yield
    finally:
        watch.deferred = before
    if watch.received and not before:  # it came too late for anyone who asked
        raise watch.interrupted()


def _leave_at_the_second(reading: int) -> None:
    """Says that the first signal was heard, and ends the process at the second."""
    first, since = 0, 0.0
    by_parent_too = multiprocessing.parent_process() is not None
    while number := os.read(reading, 1):
        # What somebody else handles, such as a server, is not ours.
        if number[0] not in SIGNALS or not _is_watched(number[0]):
            continue
        in_time = time.monotonic() - since < _TWICE_S
        if number[0] == first and by_parent_too and in_time and not _is_only_handed_on(first):
            by_parent_too = False
            continue
        if first:
            until = time.monotonic() + 1
            while _watch and _watch.held and time.monotonic() < until:
                time.sleep(0.001)
            start.leave(number[0])
        first, since = number[0], time.monotonic()
        if _watch and _watch.deferred:
            with contextlib.suppress(OSError):  # a terminal that is gone, a full disk
                os.write(2, _FIRST % signal.Signals(first).name.encode())
    os.close(reading)


def _is_only_handed_on(signum: int) -> bool:
    """Whether a terminal's signal does not come to this process itself, but by its parent alone."""
    return signum == signal.SIGINT and os.getpgrp() == os.getpid()


def _hear_of_ignored(otherwise: Callable[[Any], Any], ignored: Any) -> None:
    if isinstance(ignored.exc_value, Interrupted):
        start.leave(ignored.exc_value.signum)
    otherwise(ignored)


def _is_importing(frame: types.FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _is_watched(signum: int) -> bool:
    return _watch is not None and signal.getsignal(signum) == _watch.handle
