"""Python programs as forks of a process that has imported their backend: they begin at once.

Nothing is computed in that process, so a fork lacks no thread of it: it computes, ends and is
killed as a process of its own. A test whose subject is how a program starts uses `subprocess`.
"""

import contextlib
import gc
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver
from unittest import mock

from t2t_repro import process

ROOT = pathlib.Path(__file__).parents[1]
OWN = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
_PRELOADED = {  # TensorFlow under JAX, too: Keras imports it to set a seed
    "tensorflow": ["tensorflow", "tensorflow_text"],
    "jax": ["jax", "scipy.stats", "tensorflow"],
}
_context = multiprocessing.get_context("forkserver")
_SERVERS: dict[str, forkserver.ForkServer] = {}  # of each backend


class Popen:
    """As subprocess.Popen of [sys.executable, ...] with its output in files."""

    def __init__(self, command: Sequence, stdout, stderr, env: Mapping[str, str], cwd="."):
        python, *argv = map(os.fspath, command)
        assert python == sys.executable, command
        argv = argv[argv[0] == "-u" :]  # a fork buffers no output
        files = [stdout.name, stdout.name if stderr == subprocess.STDOUT else stderr.name]
        how = (argv, os.path.abspath(cwd), dict(env), files)
        self._process = _context.Process(target=_become, args=how)
        with _server(env.get("KERAS_BACKEND", "tensorflow")):
            self._process.start()
        self.pid, self.kill = self._process.pid, self._process.kill
        self.terminate = self._process.terminate

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a fork", timeout)
        return self.poll()


def run(*argv, cwd=".", **environment: str) -> subprocess.CompletedProcess:
    """Runs Python with these arguments, in an environment with these changes."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = (pathlib.Path(folder, name) for name in ("out", "err"))
        with out.open("w") as stdout, err.open("w") as stderr:
            env = os.environ | OWN | environment
            started = Popen([sys.executable, *argv], stdout, stderr, env, cwd)
            try:
                code = started.wait(900)
            finally:
                started.kill()
        return subprocess.CompletedProcess(argv, code, out.read_text(), err.read_text())


def said_by(*argv, cwd=".", **environment: str) -> str:
    """Returns what a Python process prints, which ends with exit code 0."""
    done = run(*argv, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def fork_programs() -> None:
    """Lets the programs that this fork starts be forks of it; it has computed nothing itself."""
    global _context
    _context = process.SPAWN = multiprocessing.get_context("fork")
    subprocess.run = lambda command, **_: run(*command[1:])


@contextlib.contextmanager
def _server(backend: str) -> Iterator[None]:
    """Lets a process start as a fork of the one that has this backend."""
    if backend not in _SERVERS:
        _SERVERS[backend] = forkserver.ForkServer()
        _SERVERS[backend].set_forkserver_preload([*_PRELOADED[backend], "keras", "h5py"])
    connect = _SERVERS[backend].connect_to_new_process
    with (
        mock.patch.object(forkserver, "connect_to_new_process", connect),
        mock.patch.dict(os.environ, {**OWN, "KERAS_BACKEND": backend}),
    ):
        yield


def _become(argv: list[str], cwd: str, environment: dict[str, str], files: list[str]) -> None:
    """Does what Python does with these arguments."""
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    sys.stdout.reconfigure(write_through=True)
    gc.freeze(), gc.set_threshold(50_000, 20, 100)  # as in conftest.py
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    multiprocessing.process._parent_process = None  # as of a program that a user starts
    kind, *rest = argv
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = [kind, *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0:0] = argv, [os.path.dirname(kind)]
        runpy.run_path(kind, run_name="__main__")
