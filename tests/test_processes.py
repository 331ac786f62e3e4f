"""What runs in a process of its own is a function of the standard library: all can import it."""

import contextlib
import math
import os
import pathlib
import runpy
import signal
import threading
import time

import pytest

from t2t_repro import memory, processes, registry, signals
from t2t_repro.errors import Interrupted, UserError


def test_a_function_returns_from_a_process_of_its_own():
    pid = processes.call(os.getpid)
    assert pid != os.getpid()
    assert memory.resident(pid) == 0  # it has ended


def test_what_it_prints_goes_behind_what_its_log_has(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    ended = processes.run(print, "first\nlast", log=log)
    assert ended == (0, "first\nlast\n", None, "") and ended.last_line() == "last"
    assert log.read_text() == "before\nfirst\nlast\n"


def test_a_fault_of_the_users_is_one_line():
    ended = processes.run(registry.get_problem, "none")
    assert ended.code == 2 and ended.said.startswith("Unknown problem. Received: 'none'")
    assert ended.error == ended.last_line() == ended.said.removesuffix("\n")
    assert ended._replace(said=ended.said + "of another process\n").last_line() == ended.error


@pytest.mark.parametrize("function, value", [(math.sqrt, -1), (signal.raise_signal, 9)])
def test_any_other_fault_is_named(function, value):
    with pytest.raises(UserError, match=function.__name__):
        processes.call(function, value)


def test_it_is_watched_and_may_be_killed():
    held = []

    def watch(pid):
        held.append(memory.resident(pid))
        return len(held) < 3

    ended = processes.run(time.sleep, 60, watch=watch, every=0.2)
    assert ended.code == -signal.SIGKILL
    assert 1e6 < max(held) < 1e9


def test_a_signal_ends_both():
    def stop(pid):
        pids.append(pid)
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    pids = []
    with pytest.raises(Interrupted, match="SIGTERM"), signals.watching():
        processes.run(time.sleep, 60, watch=stop, every=0.1)
    assert memory.resident(pids[0]) == 0


SAVES = """
import pathlib, signal, time
from t2t_repro import signals

def console():
    with signals.watching(), signals.deferred():
        pathlib.Path("ready").touch()
        while not signals.received():
            time.sleep(0.01)
        time.sleep(0.5)
        pathlib.Path("saved").write_text(signal.Signals(signals.received()).name)
"""


def signal_both(signum, pid):
    """As a service manager does, or a terminal."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
    time.sleep(0.2)  # two that wait are one
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("send", [signal_both, lambda signum, pid: os.kill(os.getpid(), signum)])
def test_a_signal_that_both_get_counts_once(signum, send, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("saves.py").write_text(SAVES + "\nconsole()\n")
    sent = []

    def stop(pid):
        if pathlib.Path("ready").exists() and not sent:
            sent.append(pid)
            send(signum, pid)
        return True

    with pytest.raises(Interrupted, match=signum.name), signals.watching():
        processes.run(runpy.run_path, "saves.py", watch=stop, every=0.05)
    assert pathlib.Path("saved").read_text() == signum.name


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_program_gets_a_signal_once(signum, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pathlib.Path("saves.py").write_text(SAVES)

    def stop():
        while not pathlib.Path("ready").exists():
            time.sleep(0.05)
        children = pathlib.Path(f"/proc/{os.getpid()}/task/{main}/children").read_text().split()
        commands = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        (child,) = (pid for pid, of in commands.items() if b"--multiprocessing-fork" in of)
        signal_both(signum, int(child))

    main = threading.get_native_id()
    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(Interrupted, match=f"{signum.name} in t2t-saves"):
        processes.program("saves", "t2t-saves", [])
    thread.join()
    assert pathlib.Path("saved").read_text() == signum.name


@pytest.mark.parametrize("threads", [0, 1])
def test_a_program_that_starts_gets_the_signal_too(
    threads, half_started, tmp_path, monkeypatch, capfd
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "works.py").write_text("import time\n\ndef console():\n    time.sleep(60)\n")
    started, over = time.monotonic(), threading.Event()
    for _ in range(threads):  # which may take the signal while the main thread lets it wait
        threading.Thread(target=over.wait).start()
    with pytest.raises(Interrupted):
        processes.program("works", "t2t-works", [])
    over.set()
    assert time.monotonic() - started < 50
    assert memory.resident(half_started[0]) == 0
    assert capfd.readouterr().err == ""


def test_a_signal_waits_until_a_process_is_told_what_to_do(half_started, tmp_path, capfd):
    log = tmp_path / "log"
    with pytest.raises(Interrupted), signals.watching():
        processes.run(time.sleep, 0.1, log=log)
    assert len(half_started) == 1 and memory.resident(half_started[0]) == 0
    assert capfd.readouterr().err == "" and not (log.exists() and log.read_text())
