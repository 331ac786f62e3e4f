"""Work in a process of its own, which ends with its parent and gives all its memory back.

Processes are started anew ("spawn"), never forked: a fork copies the locks of TensorFlow's threads
as they stand. A program that uses them from its own file must begin under
`if __name__ == "__main__":`, because each process imports that file.
"""

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any, NamedTuple

from t2t_repro import quiet, signals
from t2t_repro.errors import Interrupted, UserError

SPAWN = multiprocessing.get_context("spawn")
_MODULES = {"t2t-eval": "evaluator"}  # of programs whose modules have other names


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: 0; or what it left with; or the signal that killed it, negative.
        said: all that it printed.
        result: what its function returned; None where it did not.
        error: the message that it left with, "" where there is none.
    """

    code: int
    said: str
    result: Any = None
    error: str = ""

    def last_line(self) -> str:
        """Returns its error, or the last line that it printed, "" if there is neither."""
        # Several processes may print into one file: the error is not looked for there.
        return self.error or (self.said.strip().splitlines() or [""])[-1]

    def lacked_memory(self) -> str:
        """Returns how a process ended for want of memory, "" if it was not for that."""
        if self.code == -signal.SIGKILL:
            return "killed, as the system does where there is no memory"
        signs = ("out of memory", "bad_alloc", "RESOURCE_EXHAUSTED")
        return "out of memory" if self.code and any(s in self.said for s in signs) else ""


def run(
    function: Callable,
    *arguments: Any,
    log: str | os.PathLike | None = None,
    watch: Callable[[int], bool] = lambda pid: True,
    every: float = 1.0,
) -> Ended:
    """Runs a function in a process of its own, to the end.

    Args:
        function: what another process can import; pickled, as what it returns.
        arguments: what it gets; pickled.
        log: the file behind whose end all goes that the process prints; None: it is not kept.
        watch: called with the id of the process now and then; False: kill it.
        every: so often, in seconds.

    Raises:
        Interrupted: on a signal, inside `signals.watching`, when the process has ended as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(log or os.path.join(folder, "log"))
        before = path.stat().st_size if path.exists() else 0
        reader, writer = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=_work, args=(writer, path, function, arguments))
        result, failure = None, ""
        try:
            with signals.held(), _signals_wait():
                process.start()
                writer.close()
            assert process.pid is not None
            while not multiprocessing.connection.wait([reader, process.sentinel], every):
                if not watch(process.pid):
                    process.kill()
            with contextlib.suppress(EOFError):
                result, failure = reader.recv()
        except BaseException as stop:
            if process.pid is None:  # nothing has been started
                raise
            signum = stop.signum if isinstance(stop, Interrupted) else signal.SIGKILL
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signum)
            process.join()
            raise
        finally:
            reader.close()
        process.join()
        said = path.read_bytes()[before:] if path.exists() else b""
    return Ended(process.exitcode or 0, said.decode("utf-8", "replace"), result, failure)


def call(function: Callable, *arguments: Any) -> Any:
    """Returns what a function returns in a process of its own.

    Raises:
        UserError: if the process fails; it may be killed for its memory.
    """
    ended = run(function, *arguments)
    if ended.code:
        given = ", ".join(map(repr, arguments))
        raise UserError(
            f"Expected {function.__name__}({given}) of {function.__module__} to run in a process "
            f"of its own. Received: exit code {ended.code}, {ended.last_line() or 'nothing said'}. "
            "Free some memory, and give the same command again."
        )
    return ended.result


def end_with_parent() -> None:
    """Ends this process, as a kill would, when the one that started it ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Keeps signals from a process that starts in the block until it has called `_hear_signals`.

    Before that it would print a traceback; what is blocked is inherited.
    """
    resource_tracker.ensure_running()  # when it starts itself, it lets them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals.SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hear_signals() -> None:
    """Lets signals end this process without a word, until it handles them itself."""
    for signum in signals.SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.SIGNALS)


def _work(writer, log: pathlib.Path, function: Callable, arguments: tuple) -> None:
    end_with_parent()
    _hear_signals()
    quiet.tensorflow()
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        writer.send((function(*arguments), ""))
    except (UserError, OSError) as error:
        print(error, flush=True)
        writer.send((None, str(error)))
        sys.exit(2)
    except Interrupted as stop:
        print(stop, flush=True)
        writer.send((None, str(stop)))
        sys.exit(stop.exit_code)


def program(module: str, name: str, argv: list[str]) -> int:
    """Runs a program in a process of its own, which prints where this one does.

    A signal that this process gets goes on to it; so it ends in order.

    Args:
        module: its module, which has `console`.
        name: as which it runs, such as "t2t-trainer".
        argv: its flags.

    Returns:
        Its exit code; of a kill, 128 and the signal.

    Raises:
        Interrupted: on a signal, when it has ended.
    """
    process = SPAWN.Process(target=_program, args=(module, name, argv))
    try:
        with signals.watching():
            with signals.held(), _signals_wait():
                process.start()
            process.join()
    except Interrupted as stop:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, stop.signum)
        process.join()
        raise Interrupted(stop.signum, f" in {name}") from None
    code = process.exitcode or 0
    return code if code >= 0 else 128 - code


def run_program(command: Sequence[str], doing: str) -> None:
    """Runs one of this project's programs, which prints where this process does.

    Raises:
        UserError: if it fails.
        Interrupted: on a signal, which it got too.
    """
    name, *argv = command
    module = _MODULES.get(name, name.removeprefix("t2t-").replace("-", "_"))
    code = program(f"t2t_repro.bin.{module}", name, argv)
    if code:
        raise UserError(
            f"Expected {name} to end well ({doing}). Received: exit code {code}; what it said "
            "stands above. Mend that, and give the same command again: what is done stays."
        )


def _program(module: str, name: str, argv: list[str]) -> None:
    # A group of its own: the terminal's Ctrl-C would reach it beside what is sent on.
    os.setpgid(0, 0)
    end_with_parent()
    _hear_signals()
    sys.argv = [name, *argv]
    importlib.import_module(module).console()
