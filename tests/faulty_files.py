"""Files that fail: the k-th operation under a folder meets a full disk, a broken one, or a kill.

    with Warm("tensorflow") as warm:            # a process that has imported it, and forks
        ended = warm.run("tests.jobs:work", ["out"], Faults(folder="out", at=[7], how="full"))

`Ended.operations` of a run without faults says how many there are to fail. Counted are, in the
forked process and, each by itself, in those that it starts: open for writing, write, truncate,
fsync, replace, rename, link, mkdir, unlink, rmdir. A write counts where Python's buffers hand it to
the system, and leaves the first half of its bytes when it fails; as the system does, it tells of
that at the next write. What TensorFlow and other libraries write in C++ is not seen; there `limit`,
the most bytes of a file, is a full disk.
"""

import contextlib
import dataclasses
import errno
import hashlib
import importlib
import io
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[1]
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}
KILLED = 77  # the exit code of a process that ended at an operation
_VARIABLE = "FAULTY_FILES"
_OPEN, _READLINK = io.open, os.readlink


@dataclasses.dataclass(frozen=True)
class Faults:
    """Which operations fail.

    Attributes:
        folder: under which they are counted.
        at: their numbers, from 1; of each process that is started, by its own count.
        how: "full" and "broken" raise, "exit" ends the process.
        once: a folder for marks, so that each command fails once at each number; "": always.
        limit: the most bytes of a file, which the system itself refuses to exceed; 0: any.
    """

    folder: str
    at: Sequence[int] = ()
    how: str = "exit"
    once: str = ""
    limit: int = 0


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, its operations, and what it printed."""

    code: int
    operations: int
    said: str


class Counter:
    """Counts operations in place of Python's own functions, and lets some fail."""

    def __init__(self, faults: Faults):
        self.count, self._faults = 0, faults
        self._folder = os.path.realpath(faults.folder)

    def install(self) -> None:
        """Puts itself in the place of what opens, renames and removes files."""
        io.open = importlib.import_module("builtins").open = self._open
        for name in ("replace", "rename", "link", "mkdir", "unlink", "remove", "rmdir", "truncate"):
            setattr(os, name, self._counting(getattr(os, name)))
        os.fsync = self._counting(os.fsync)
        shutil._USE_CP_SENDFILE = False  # which copies past Python's files

    def operation(self) -> None:
        """Counts one, and raises or ends the process if it is to fail."""
        if self.counts_to_fail():
            self.fail()

    def counts_to_fail(self) -> bool:
        """Counts one; returns whether it is to fail."""
        self.count += 1
        return self.count in self._faults.at and self._is_first()

    def fail(self, *, later: bool = False) -> None:
        """Raises or ends the process; what only raises may do so later."""
        if self._faults.how == "exit":
            os._exit(KILLED)
        if not later:
            number = ERRORS[self._faults.how]
            raise OSError(number, os.strerror(number))

    def _is_first(self) -> bool:
        if not self._faults.once:
            return True
        command = hashlib.sha256(repr(sys.argv).encode()).hexdigest()
        try:
            os.close(os.open(f"{self._faults.once}/{command}-{self.count}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _counting(self, function):
        def call(path, *args, **more):
            others = [each for each in args if isinstance(each, str | os.PathLike)]
            if self._covers(path, more.get("dir_fd")) or any(map(self._covers, others)):
                with _named(path):
                    self.operation()
            return function(path, *args, **more)

        return call

    def _covers(self, path, folder=None) -> bool:
        if isinstance(path, int):
            path = _READLINK(f"/proc/self/fd/{path}")
        elif folder is not None:
            path = os.path.join(_READLINK(f"/proc/self/fd/{folder}"), os.fsdecode(path))
        path = os.path.abspath(os.fsdecode(path))
        return path == self._folder or path.startswith(self._folder + os.sep)

    def _open(
        self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *args, **more
    ):
        if set(mode) <= set("rbtU") or isinstance(file, int) or not self._covers(file):
            return _OPEN(file, mode, buffering, encoding, errors, newline, *args, **more)
        with _named(file):
            self.operation()
        raw = _Raw(file, mode.replace("b", "").replace("t", ""))
        raw.counter = self
        if buffering == 0:
            return raw
        opened = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return opened
        text = io.TextIOWrapper(opened, encoding, errors, newline, line_buffering=buffering == 1)
        text.mode = mode
        return text


class _Raw(io.FileIO):
    short = False  # whether the last write wrote less than it should

    def write(self, data):
        if self.short:
            self.short = False
            self.counter.fail()
        if not self.counter.counts_to_fail():
            return super().write(data)
        whole = memoryview(data).cast("B")
        written = super().write(whole[: len(whole) // 2])
        self.counter.fail(later=True)
        self.short = True
        return written

    def truncate(self, size=None):
        self.counter.operation()
        return super().truncate(size)


@contextlib.contextmanager
def _named(path):
    try:
        yield
    except OSError as error:
        error.filename = path if isinstance(path, int) else os.fspath(path)
        raise


class Warm:
    """A process that has imported modules, or called "module:name"; each run is a fork of it."""

    def __init__(self, *modules: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faulty_files", *modules],
            cwd=ROOT,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._process.communicate()

    def run(self, function: str, arguments: list, faults: Faults) -> Ended:
        """Calls a function, "module:name", in a fork, with its faults; waits for its end."""
        order = json.dumps([function, arguments, dataclasses.asdict(faults)])
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return Ended(*json.loads(self._process.stdout.readline()))


def _serve(modules: Sequence[str]) -> None:
    for module in modules:
        _call(module)
    orders, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with _OPEN(orders) as lines:
        for line in lines:
            log, counted = os.memfd_create("log"), os.memfd_create("counted")
            process = os.fork()
            if not process:
                _work(*json.loads(line), log, counted)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            said, count = (
                os.pread(fd, 10**7, 0).decode("utf-8", "replace") for fd in (log, counted)
            )
            os.close(log), os.close(counted)
            os.write(answers, (json.dumps([code, int(count or 0), said]) + "\n").encode())


def _work(function: str, arguments: list, faults: dict, log: int, counted: int) -> None:
    code = 1
    try:
        os.dup2(log, 1), os.dup2(log, 2)
        os.environ[_VARIABLE] = json.dumps(faults)  # for what it starts
        counter = _install(Faults(**faults))
        _call(function, *arguments)
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os.write(counted, str(counter.count).encode())
        os._exit(code)


def _call(function: str, *arguments) -> None:
    module, _, name = function.partition(":")
    made = importlib.import_module(module)
    if name:
        getattr(made, name)(*arguments)


def _install(faults: Faults) -> Counter:
    counter = Counter(faults)
    counter.install()
    if faults.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (faults.limit, faults.limit))
    return counter


if __name__ == "__main__":
    _serve(sys.argv[1:])
elif __name__ == "__mp_main__" and _VARIABLE in os.environ:  # in what a run has started
    _install(Faults(**json.loads(os.environ[_VARIABLE])))
