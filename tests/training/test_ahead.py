"""What is compiled ahead: in which order, and what a signal does."""

import contextlib
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from t2t_repro import process
from t2t_repro.training import distribution
from t2t_repro.training.devices import Devices
from t2t_repro.training.distribution import CompilePool

ROWS = (4, 10, 3)
SHAPES = [dict.fromkeys(("inputs", "targets"), (rows, 60 // rows)) for rows in ROWS]


class Compiler:
    """Compiles a shape to its rows, once it may."""

    def __init__(self):
        self.may, self.compiled, self._main = threading.Event(), [], threading.main_thread()

    def lower(self, shape):
        class Lowered:
            compile = staticmethod(lambda: self._compile(shape["inputs"][0]))

        return Lowered

    def _compile(self, rows):
        self.may.wait(20)
        self.compiled.append((rows, threading.current_thread() is self._main))
        return rows


@pytest.fixture
def compiler():
    made = Compiler()
    yield made
    made.may.set()


@pytest.fixture
def programs(compiler):
    with contextlib.closing(CompilePool(SHAPES, 1, print)) as programs:
        programs.begin(compiler.lower)
        yield programs


def program(programs, shape):
    return programs.program({name: np.zeros(size, "int32") for name, size in shape.items()})


def test_what_is_needed_now_does_not_wait_for_its_turn(programs, compiler):
    threading.Timer(0.1, compiler.may.set).start()
    assert program(programs, SHAPES[2]) == 3
    assert (3, True) in compiler.compiled  # the thread is still at the first


def test_a_signal_ends_the_wait(programs, monkeypatch, compiler):
    with monkeypatch.context() as patched, pytest.raises(CancelledError):
        patched.setattr(process, "received_signal", lambda: 15)
        program(programs, SHAPES[0])
    compiler.may.set()


def test_at_the_end_it_waits_for_what_is_at_work_and_for_no_more(compiler):
    with contextlib.closing(CompilePool(SHAPES, 1, print)) as programs:
        programs.begin(compiler.lower)
        threading.Timer(0.1, compiler.may.set).start()
    assert compiler.compiled == [(4, False)]


class Dataset:
    shares = list(zip((0.6, 0.3, 0.1), SHAPES, strict=True))


@pytest.mark.parametrize(
    "dataset, kind, steps, count",
    [
        (Dataset(), "GPU", 10, 3),
        (Dataset(), "GPU", 4, 2),
        (Dataset(), "GPU", 2, 0),  # one shape: nothing to do beside
        (Dataset(), "CPU", 10, 0),
        (iter([]), "GPU", 10, 0),
    ],
)
def test_it_is_in_order_and_for_gpus_and_shapes_that_the_steps_will_need(
    dataset, kind, steps, count, compiler, monkeypatch
):
    monkeypatch.setattr(process, "available_cores", lambda: 2)
    compiler.may.set()
    said = []
    made = distribution.compile_ahead(dataset, Devices(kind=kind), steps, said.append)
    with contextlib.closing(made) as ahead:
        ahead.begin(compiler.lower)
        ahead._pool.shutdown()
        assert compiler.compiled == [(rows, False) for rows in ROWS[:count]]
        assert [program(ahead, shape) for shape in SHAPES] == [*ROWS[:count], *(3 - count) * [None]]
    assert len(said) == bool(count)
