"""What runs in a process of its own is a function of the standard library: all can import it."""

import math
import os
import signal
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


def test_any_other_fault_is_named():
    message = r"sqrt\(-1\) of math to run .*exit code 1, ValueError: .*Free some memory, and give"
    with pytest.raises(UserError, match=message):
        processes.call(math.sqrt, -1)
    message = r"raise_signal\(9\) of _?signal to .*exit code -9, nothing said\. Free some memory"
    with pytest.raises(UserError, match=message):
        processes.call(signal.raise_signal, 9)


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


def test_a_signal_waits_until_a_process_is_told_what_to_do(half_started, tmp_path, capfd):
    log = tmp_path / "log"
    with pytest.raises(Interrupted), signals.watching():
        processes.run(time.sleep, 0.1, log=log)
    assert len(half_started) == 1 and memory.resident(half_started[0]) == 0
    assert capfd.readouterr().err == "" and not (log.exists() and log.read_text())
