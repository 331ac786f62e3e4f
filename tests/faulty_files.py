"""Files that fail: the k-th operation under a folder meets a full disk, a broken one, or a kill.

    with Warm("tensorflow") as warm:            # a process that has imported it, and forks
        ended = warm.run("tests.jobs:work", ["out"], Faults(folder="out", at=[7], how="full"))

`Ended.operations` of a run without faults says how many there are to fail. Counted are, in the
forked process and, each by itself, in those that it starts, what Python tells its audit hooks: open
for writing, rename, link, mkdir, remove, rmdir. A write fails by `limit`, the most bytes of a file:
the system itself writes what fits, and then refuses the rest or ends the process; it does so to
what TensorFlow and other libraries write, too.
"""

import dataclasses
import errno
import fcntl
import hashlib
import importlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[1]
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}
KILLED = (77, -signal.SIGXFSZ)  # the exit codes of a process that ended at an operation
_EVENTS = ("os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir")
_VARIABLE = "FAULTY_FILES"
_LOG_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class Faults:
    """Which operations fail.

    Attributes:
        folder: under which they are counted.
        at: their numbers, from 1; of each process that is started, by its own count.
        how: "full" and "broken" raise, "exit" ends the process.
        once: a folder for marks, so that each command fails once at each number; "": always.
        limit: the most bytes of a file; 0: any.
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
    """An audit hook that counts operations, and lets some fail."""

    def __init__(self, faults: Faults):
        self.count, self._faults = 0, faults
        self._folder = os.path.realpath(faults.folder)

    def restart(self) -> None:
        self.count = 0

    def __call__(self, event: str, args: tuple) -> None:
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in _EVENTS:
            return
        paths = args[: 1 + (event in ("os.rename", "os.link"))]
        folder = -1 if writes else args[-1]  # its descriptor; -1: none is given
        if not any(self._covers(path, folder) for path in paths):
            return
        self.count += 1
        if self.count in self._faults.at and self._is_first():
            if self._faults.how == "exit":
                os._exit(KILLED[0])
            number = ERRORS[self._faults.how]
            raise OSError(number, os.strerror(number), paths[0])

    def _is_first(self) -> bool:
        if not self._faults.once:
            return True
        command = hashlib.sha256(repr(sys.argv).encode()).hexdigest()
        try:
            os.close(os.open(f"{self._faults.once}/{command}-{self.count}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _covers(self, path, folder) -> bool:
        if isinstance(path, int):
            return False
        path = os.fsdecode(path)
        if not os.path.isabs(path) and folder >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        path = os.path.abspath(path)
        return path == self._folder or path.startswith(self._folder + os.sep)


class Warm:
    """A process that has imported modules, or called "module:name"; each run is a fork of it."""

    def __init__(self, *modules: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faulty_files", *modules],
            cwd=ROOT,
            env=os.environ
            | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
            | {"PYTHONDONTWRITEBYTECODE": "1"},
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


def leave_graphs() -> None:
    """Lets TensorFlow run its graphs as they are: to optimise them takes longer than they do."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def _serve(modules: Sequence[str]) -> None:
    for module in modules:
        _call(module)
    orders, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with open(orders) as lines:
        for line in lines:
            log, writer = os.pipe()  # to which no limit of a file's bytes applies
            fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, _LOG_BYTES)
            os.set_blocking(log, False)
            counted = os.memfd_create("counted")
            process = os.fork()
            if not process:
                _work(*json.loads(line), writer, counted)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            os.write(writer, b"\n")
            said, count = os.read(log, _LOG_BYTES), os.pread(counted, 99, 0)
            os.close(log), os.close(writer), os.close(counted)
            answer = [code, int(count or 0), said.decode("utf-8", "replace")]
            os.write(answers, (json.dumps(answer) + "\n").encode())


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
    sys.addaudithook(counter)
    os.register_at_fork(after_in_child=counter.restart)
    if faults.limit:
        if faults.how == "exit":
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
        resource.setrlimit(resource.RLIMIT_FSIZE, (faults.limit, faults.limit))
    return counter


if __name__ == "__main__":
    _serve(sys.argv[1:])
elif __name__ == "__mp_main__" and _VARIABLE in os.environ:  # in what a run has started
    _install(Faults(**json.loads(os.environ[_VARIABLE])))
