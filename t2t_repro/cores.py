"""How many cores this process may use: those of its affinity, or fewer by its container's quota."""

import contextlib
import math
import os
import pathlib

_CGROUP = pathlib.Path("/sys/fs/cgroup")
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def available_cores() -> int:
    """Returns how many cores this process may use, at least 1."""
    return max(1, math.ceil(min(_runnable(), _quota())))


def hold_to_quota() -> None:
    """Lets TensorFlow have no more threads than a container's quota has cores, but for the user's.

    It counts the cores that it may run on: with a quota of two of 64 its 64 threads use up the
    share of a moment at once, and all wait for the next. It must not be loaded yet.
    """
    if available_cores() < _runnable():
        for name in _THREADS:
            os.environ.setdefault(name, str(available_cores()))


def _runnable() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota() -> float:
    """Returns how many cores' time the cgroup of a container allows; infinity: all there is."""
    with contextlib.suppress(OSError, ValueError):  # of version 2; "max 100000" is no number
        most, period = (_CGROUP / "cpu.max").read_text().split()
        return int(most) / int(period)
    with contextlib.suppress(OSError, ValueError):  # of version 1; -1 is no limit
        most, period = (
            (_CGROUP / "cpu" / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period")
        )
        if int(most) > 0:
            return int(most) / int(period)
    return math.inf
