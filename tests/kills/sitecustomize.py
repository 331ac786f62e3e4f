"""Kills each program at some of its writes, once: Python loads this file where it is in the path.

KILL_AT=1,3 says at which, counted from the program's start; the folder KILLS has a file for each
kill that was, so that the same command comes further the next time.
"""

import hashlib
import os
import pathlib
import signal
import sys

_count = 0


def _killing(write):
    def call(*args, **more):
        global _count
        _count += 1
        command = hashlib.sha256(repr(sys.argv).encode()).hexdigest()
        mark = pathlib.Path(os.environ["KILLS"], f"{command}-{_count}")
        if str(_count) in os.environ["KILL_AT"].split(",") and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*args, **more)

    return call


if "KILLS" in os.environ:
    os.replace, os.rename = map(_killing, (os.replace, os.rename))
