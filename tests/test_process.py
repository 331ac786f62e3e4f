"""What runs in a process of its own is a function of the standard library: all can import it."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from t2t_repro import process, registry
from t2t_repro.errors import Interrupted, UserError

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.mark.parametrize("signum", CODES)
def test_a_signal_ends_the_block_at_once_where_nothing_is_to_save(signum):
    before = signal.getsignal(signum)
    with pytest.raises(Interrupted) as stopped, process.handle_signals(), process.handle_signals():
        os.kill(os.getpid(), signum)
        time.sleep(5)
    assert stopped.value.exit_code == CODES[signum]
    assert signal.getsignal(signum) is before and process.received_signal() == 0


def test_a_deferred_signal_is_received_and_waits():
    with pytest.raises(Interrupted), process.handle_signals(), process.defer_signals():
        assert process.received_signal() == 0
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        assert process.received_signal() == signal.SIGTERM
        with pytest.raises(Interrupted), process.deliver_signals():
            pytest.fail("the signal that waits comes first")
        assert process.received_signal() == signal.SIGTERM  # deferred again: nothing is raised


@pytest.mark.parametrize("signum", CODES)
def test_a_second_signal_leaves_at_once(signum):
    program = (
        "import time\n"
        "from t2t_repro import process\n"
        "with process.handle_signals(), process.defer_signals():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signum)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signum)
    assert child.wait(timeout=10) == CODES[signum]


def test_a_function_returns_from_a_process_of_its_own_or_its_fault_is_raised(capfd):
    assert process.call(os.getpid) != os.getpid()
    process.call(print, "nothing")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(MemoryError):
        process.call(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(UserError, match="'none'"):
        process.call(registry.get_problem, "none")


SAVES = """
import pathlib, signal, time
from t2t_repro import process

def console():
    with process.handle_signals(), process.defer_signals():
        pathlib.Path("ready").touch()
        while not process.received_signal():
            time.sleep(0.01)
        time.sleep(0.5)
        pathlib.Path("saved").write_text(signal.Signals(process.received_signal()).name)

"""


def signal_both(signum, pid):
    """As a service manager does, or a terminal."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
    time.sleep(0.2)  # two that wait are one
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", CODES)
def test_a_signal_that_both_get_counts_once(signum, tmp_path, monkeypatch):
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
    with pytest.raises(Interrupted), process.handle_signals():
        process.program("saves", "t2t-saves", [])
    thread.join()
    assert pathlib.Path("saved").read_text() == signum.name


def test_a_signal_ends_a_process_that_starts(half_started):
    with pytest.raises(Interrupted), process.handle_signals():
        process.call(time.sleep, 60)
    assert len(half_started) == 1 and not os.path.exists(f"/proc/{half_started[0]}")


@pytest.mark.parametrize(
    ("quota", "expected", "threads"),
    [("max 100000", 7, None), ("250000 100000", 3, "3"), ("5000 100000", 1, "1")],
)
def test_the_quota_of_a_container_counts(tmp_path, monkeypatch, quota, expected, threads):
    assert 1 <= process.available_cores() <= os.cpu_count()
    monkeypatch.setattr(process, "_CGROUP", tmp_path)
    monkeypatch.setattr(process, "_runnable", lambda: 7)
    assert process.available_cores() == 7
    (tmp_path / "cpu.max").write_text(quota)
    assert process.available_cores() == expected
    environment = {"TF_NUM_INTEROP_THREADS": "5"}  # what the user says counts
    monkeypatch.setattr(os, "environ", environment)
    process.limit_threads()
    assert environment.get("TF_NUM_INTRAOP_THREADS") == threads
    assert environment["TF_NUM_INTEROP_THREADS"] == "5"


def test_memory_is_in_bytes(tmp_path, monkeypatch):
    assert 10e6 < process.total_memory() < 1e14
    monkeypatch.setattr(process, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("70000\n")
    assert process.total_memory() == 70000
    (tmp_path / "memory.max").write_text("max\n")
    assert process.total_memory() > 1e6
