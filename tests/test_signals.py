import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from t2t_repro import signals
from t2t_repro.errors import Interrupted

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.mark.parametrize("signum", CODES)
def test_a_signal_ends_the_block_at_once_where_nothing_is_to_save(signum):
    before = signal.getsignal(signum)
    with pytest.raises(Interrupted) as stopped, signals.watching():
        os.kill(os.getpid(), signum)
        time.sleep(5)
    assert stopped.value.exit_code == CODES[signum]
    assert signum.name in str(stopped.value)
    assert signal.getsignal(signum) is before and signals.received() == 0


def test_a_deferred_signal_is_received_and_waits(capfd):
    with pytest.raises(Interrupted), signals.watching(), signals.deferred():
        assert signals.received() == 0
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        assert signals.received() == signal.SIGTERM
        with pytest.raises(Interrupted, match="SIGTERM"), signals.immediate():
            pytest.fail("the signal that waits comes first")
    assert "SIGTERM" in capfd.readouterr().err


def test_a_signal_is_held_for_a_moment_and_nothing_is_said(capfd):
    steps = []
    with pytest.raises(Interrupted, match="SIGTERM"), signals.watching():
        with signals.held():
            with signals.held():
                os.kill(os.getpid(), signal.SIGTERM)
                steps.append("inner")
            time.sleep(0.2)
            steps.append("outer")
        pytest.fail("the signal counts when the block is over")
    assert capfd.readouterr().err == ""
    with pytest.raises(Interrupted), signals.watching(), signals.deferred():
        with signals.held():
            os.kill(os.getpid(), signal.SIGTERM)
        steps.append("deferred")
    assert steps == ["inner", "outer", "deferred"]


def test_signals_are_taken_back_from_a_library():
    with pytest.raises(Interrupted, match="SIGTERM"), signals.watching():
        ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(1))  # SIG_IGN, beneath Python
        os.kill(os.getpid(), signal.SIGTERM)
        signals.take_back()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


def test_an_immediate_part_of_a_deferred_block():
    with pytest.raises(Interrupted), signals.watching():
        with signals.deferred():
            with pytest.raises(Interrupted), signals.immediate():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            assert signals.received() == signal.SIGINT  # deferred again: nothing is raised here
        pytest.fail("the signal counts when the block is over")


def test_watching_twice_and_in_another_thread_changes_nothing():
    with signals.watching():
        handler = signal.getsignal(signal.SIGTERM)
        with signals.watching():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    errors = []

    def elsewhere():
        try:
            with signals.watching(), signals.deferred(), signals.immediate():
                pass
        except ValueError as error:  # Python: signal only works in main thread
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert not errors


@pytest.mark.parametrize("signum", CODES)
def test_a_second_signal_leaves_at_once_even_out_of_a_long_call(signum):
    program = (
        "import ctypes\n"
        "from t2t_repro import signals\n"
        "libc = ctypes.CDLL(None)\n"
        "with signals.watching(), signals.deferred():\n"
        "    print('ready', flush=True)\n"
        "    for _ in range(60): libc.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signum)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signum)
    assert process.wait(timeout=10) == CODES[signum]


def test_what_to_do_is_said_by_the_innermost():
    for then, inner in (("", "Again."), ("Again.", "")):
        with pytest.raises(Interrupted) as stopped, signals.watching(then), signals.watching(inner):
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("the signal counts at once")
        assert str(stopped.value) == f"stopped by SIGTERM. {inner}".rstrip()


@pytest.mark.parametrize("block", [signals.held, signals.deferred])
def test_what_to_do_is_said_behind_what_waited_too(block):
    with pytest.raises(Interrupted) as stopped, signals.watching("Again."):
        with block():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
    assert str(stopped.value) == "stopped by SIGTERM. Again."


def test_a_library_leaves_signals_alone():
    code = "import signal, t2t_repro.cli; print(signal.getsignal(signal.SIGTERM) == 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert done.stdout == b"True\n", done
