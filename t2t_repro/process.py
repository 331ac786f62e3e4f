"""This process and its children: deferred signals, programs, cores, memory.

    with process.handle_signals():           # a program's whole work
        ...                                  # a signal here raises Interrupted
        with process.defer_signals():        # steps and files in the making
            ...                              # a signal here only sets process.received_signal()
            with process.deliver_signals():  # an evaluation within
                ...

Children are started anew ("spawn"), never forked: a fork copies the locks of TensorFlow's threads
as they stand. A program that uses them from its own file must begin under
`if __name__ == "__main__":`, because each child imports that file.
"""

import concurrent.futures.process
import contextlib
import importlib
import math
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from t2t_repro import imports
from t2t_repro.errors import Interrupted, UserError

SPAWN = multiprocessing.get_context("spawn")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TWICE_S = 2.0
_MODULES = {"t2t-eval": "evaluator"}  # of programs whose modules have other names
_CGROUP = pathlib.Path("/sys/fs/cgroup")  # version 2
_NO_MEMORY = ("MemoryError", "ResourceExhausted", "RESOURCE_EXHAUSTED")
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


# --- signals ---------------------------------------------------------------------------------


class _Handler:
    """What SIGINT and SIGTERM do inside `handle_signals`."""

    received, since, deferred = 0, 0.0, False

    def __call__(self, signum: int, frame: types.FrameType | None) -> None:
        """Keeps the first signal; the second ends the process.

        In a child the same signal within two seconds counts once: a terminal or a service manager
        sends it to all processes, and the parent hands it on as well.
        """
        now = time.monotonic()
        if not self.received:
            self.received, self.since = signum, now
            if self.deferred:
                name = signal.Signals(signum).name
                os.write(2, f"\n{name}: stopping. A second signal stops at once.\n".encode())
            self.check()
        elif multiprocessing.parent_process() is None or now - self.since > _TWICE_S:
            os._exit(128 + signum)

    def check(self) -> None:
        """Raises Interrupted for a signal that has come, unless it is deferred."""
        if self.received and not self.deferred:
            raise Interrupted(self.received, then="")


_handler = _Handler()


@contextlib.contextmanager
def handle_signals() -> Iterator[None]:
    """Turns signals into Interrupted while the block runs; in the main thread only."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is _handler:
        yield
        return
    before = {signum: signal.signal(signum, _handler) for signum in _SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        _handler.received = 0


def reinstall_handlers() -> None:
    """Puts Python's handlers in again, where a library has put in its own beneath Python.

    TensorFlow does so for SIGTERM when it connects to other workers, and the signal is then lost.
    """
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)


def received_signal() -> int:
    """Returns the number of the signal that came while it was deferred; 0: none."""
    return _handler.received


def defer_signals() -> contextlib.AbstractContextManager[None]:
    """Lets the block end before a signal has an effect; `received_signal` may end it sooner."""
    return _mode(deferred=True)


def deliver_signals() -> contextlib.AbstractContextManager[None]:
    """Raises Interrupted within a deferred block, and for a signal that waits already."""
    return _mode(deferred=False)


@contextlib.contextmanager
def _mode(deferred: bool) -> Iterator[None]:
    before, _handler.deferred = _handler.deferred, deferred
    try:
        _handler.check()
        yield
    finally:
        _handler.deferred = before
    _handler.check()


# --- children --------------------------------------------------------------------------------


def call(function: Callable, *arguments: Any) -> Any:
    """Returns the result of a function in a process of its own, which prints nothing.

    Args:
        function: importable; pickled, as its result or exception.
        arguments: pickled.

    Raises:
        MemoryError: if it is killed, as the system does without memory.
        Exception: that of the function.
    """
    with concurrent.futures.ProcessPoolExecutor(1, SPAWN, _begin_silent_child) as pool:
        try:
            with defer_signals():
                future = pool.submit(function, *arguments)
            return future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise MemoryError(f"{function.__name__} was killed.") from error
        except Interrupted:
            for child in multiprocessing.active_children():
                child.kill()
            raise


def run_program(command: Sequence[str], doing: str) -> None:
    """Runs one of this project's programs, with this process's output.

    Raises:
        UserError: if it fails.
        Interrupted: on a signal, which the program gets too.
    """
    name, *argv = command
    module = _MODULES.get(name, name.removeprefix("t2t-").replace("-", "_"))
    code = program(f"t2t_repro.bin.{module}", name, argv)
    if code:
        raise UserError(
            f"Expected {name} to succeed ({doing}). Received: exit code {code}; see its message "
            "above. Fix the cause and run your command again: finished stages are kept."
        )


def program(module: str, name: str, argv: list[str]) -> int:
    """Runs a program in a process of its own, with this one's output.

    A signal of this process is passed on to it.

    Args:
        module: its module, which has `console`.
        name: the program's name, such as "t2t-trainer".
        argv: its flags.

    Returns:
        Its exit code; after a kill, 128 plus the signal.

    Raises:
        Interrupted: on a signal, inside `handle_signals`, when it has ended.
    """
    child = SPAWN.Process(target=_program, args=(module, name, argv))
    try:
        with defer_signals():
            child.start()
        child.join()
    except Interrupted as stop:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, stop.signum)  # type: ignore[arg-type]  # it has begun
        child.join()
        raise Interrupted(stop.signum, f" in {name}") from None
    code = child.exitcode or 0
    return code if code >= 0 else 128 - code


def end_with_parent() -> None:
    """Ends this process, as a kill would, when the one that started it ends."""

    def watch(parent: Any) -> None:
        parent.join()
        os._exit(1)

    parent = multiprocessing.parent_process()
    threading.Thread(target=watch, args=[parent], daemon=True).start()


def _begin_child() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends it without a word, until it handles it


def _begin_silent_child() -> None:
    _begin_child()
    imports.quiet_tensorflow()
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)


def _program(module: str, name: str, argv: list[str]) -> None:
    # A group of its own: the terminal's Ctrl-C would reach it beside what is sent on.
    os.setpgid(0, 0)
    _begin_child()
    sys.argv = [name, *argv]
    importlib.import_module(module).console()


# --- cores and memory ------------------------------------------------------------------------


def available_cores() -> int:
    """Returns how many cores this process may use, by affinity and quota."""
    cores = _runnable()
    with contextlib.suppress(OSError, ValueError):  # no such cgroup, or "max 100000"
        most, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, math.ceil(int(most) / int(period)))
    return cores


def limit_threads() -> None:
    """Lets TensorFlow have no more threads than a container's quota has cores.

    TensorFlow counts the cores of its affinity: with a quota of 2 of 64, its 64 threads use up the
    quota of each period at once and wait. The environment's own settings win. Call it before
    TensorFlow loads.
    """
    if available_cores() < _runnable():
        for name in _THREADS:
            os.environ.setdefault(name, str(available_cores()))


def _runnable() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def total_memory() -> int:
    """Returns the bytes of memory: the smaller of the machine's and its cgroup's."""
    import psutil

    total = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # no such cgroup, or "max"
        total = min(total, int((_CGROUP / "memory.max").read_text()))
    return total


def lacks_memory(error: BaseException) -> bool:
    """Returns whether an error of Python, TensorFlow or JAX means a lack of memory."""
    return any(sign in f"{type(error).__name__}: {error}" for sign in _NO_MEMORY)
