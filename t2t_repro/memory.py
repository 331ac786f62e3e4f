"""Memory in bytes: the most of this process, what one holds, what is free and there; its lack."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator

import psutil

from t2t_repro.errors import UserError

_CGROUP = pathlib.Path("/sys/fs/cgroup")
# Of the two versions of cgroups: the most, what is used, and what of it are pages of files that
# nobody has read of late, which the kernel drops before it refuses memory.
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def peak() -> int:
    """Returns the most that this process has had at once."""
    status = pathlib.Path("/proc/self/status")
    if status.is_file():
        # Linux; there getrusage's number begins at that of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident(pid: int) -> int:
    """Returns what a process holds; 0: there is none."""
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0


def total() -> int:
    """Returns what there is in all: the less of what the machine has and its cgroup allows."""
    room = [psutil.virtual_memory().total]
    for most, *_ in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such cgroup, or "max"
            room.append(int((_CGROUP / most).read_text()))
    return min(room)


def free() -> int:
    """Returns what a process may take: the less of what the machine and its cgroup have free."""
    room = [psutil.virtual_memory().available]
    for most, used, numbers, droppable in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such cgroup, or "max"
            left = int((_CGROUP / most).read_text()) - int((_CGROUP / used).read_text())
            room.append(left + _number_in(_CGROUP / numbers, droppable))
    return min(room)


@contextlib.contextmanager
def explaining_lack(what: Callable[[], str], remedy: str) -> Iterator[None]:
    """Turns a lack of memory into one clear message.

    Args:
        what: says what the memory was for; is called where there is none.
        remedy: a sentence that says what to lower.

    Raises:
        UserError: if an error of Python, TensorFlow or JAX says that there is no memory.
    """
    try:
        yield
    except Exception as error:
        named = type(error).__name__ == "ResourceExhaustedError"  # TensorFlow's
        if not (named or isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)):
            raise
        raise UserError(
            f"Expected memory for {what()}. Received: out of memory. {remedy}"
        ) from error


def _number_in(file: pathlib.Path, name: str) -> int:
    """Returns what a line "NAME NUMBER" of a file says; 0: there is none."""
    with contextlib.suppress(OSError, ValueError):
        lines = (line.split() for line in file.read_text().splitlines())
        return next((int(line[1]) for line in lines if line[:1] == [name]), 0)
    return 0
