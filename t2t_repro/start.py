"""The first moments of a program, while it loads: a signal ends it in order then as well.

`t2t_repro` imports this module before all others. It does nothing where the package is a library,
nor in the processes that a program starts.
"""

import _thread
import atexit
import contextlib
import os
import signal
import sys
import time
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_told = False  # whether the program has written the line that tells of its end
_teller: int | None = None  # the thread that writes it
_done = False  # whether the program has done everything


def watch() -> None:
    """Lets a signal that finds nothing begun, or everything done, end a program with a line."""
    atexit.register(_end_if_done)  # the first to be registered is the last to be called
    for signum in SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, lambda signum, frame: leave(signum))


def leave(signum: int) -> None:
    """Ends the process at once, as the signal says; with a line if there was none.

    While the line is being written, whoever writes it ends the process: this returns where a
    second signal has interrupted that, and waits a second where another thread does it.
    """
    if _teller == _thread.get_ident():
        return
    if _teller is not None:
        time.sleep(1)
    elif not _told:
        begin_telling()
        try:
            os.write(2, f"t2t_repro: stopped by {signal.Signals(signum).name}.\n".encode())
        except OSError:  # stderr is closed or full
            pass
    os._exit(128 + signum)


def end(code: int) -> NoReturn:
    """Ends with an exit code, a program at once: a signal that came meanwhile would change it."""
    if _IS_PROGRAM:
        os._exit(code)
    sys.exit(code)


def done() -> None:
    """Notes that the program has done everything: it ends with 0 when what atexit has is called.

    Python would give the signals back and then let go of TensorFlow, which takes a second: time
    for nothing, and in it a signal would change the exit code.
    """
    global _done
    _done = True


def _end_if_done() -> None:
    if _done:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # full, or closed
                stream.flush()
        os._exit(0)


def begin_telling() -> None:
    """Notes that this thread writes the line that tells of the program's end."""
    global _teller
    _teller = _thread.get_ident()


def tell(told: bool) -> None:
    """Notes whether the program has written that line."""
    global _told, _teller
    _told, _teller = told, None


def _is_program() -> bool:
    if "--multiprocessing-fork" in sys.orig_argv:
        return False
    if sys.argv[:1] == ["-m"]:  # Python looks for the module that it is to run
        return any(argument.startswith("t2t_repro.") for argument in sys.orig_argv)
    return os.path.basename(sys.argv[0] if sys.argv else "").startswith("t2t-")


_IS_PROGRAM = _is_program()
if _IS_PROGRAM:
    watch()
