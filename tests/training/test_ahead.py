"""What is compiled ahead: in which order, what is said, and what a signal and an error do."""

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from t2t_repro import process
from t2t_repro.training import distribution
from t2t_repro.training.devices import Devices
from t2t_repro.training.distribution import CompilePool

SHAPES = [{"inputs": (rows, 60 // rows), "targets": (rows, 60 // rows)} for rows in (4, 10, 3)]


def batch_of(shape):
    return {name: np.zeros(size, "int32") for name, size in shape.items()}


class Lowered:
    """Compiles to a name, once it may; says what it does."""

    def __init__(self, shape, compiled, may):
        self.rows, self._compiled, self._may = shape["inputs"][0], compiled, may

    def compile(self):
        self._may.wait(20)
        self._compiled.append((self.rows, threading.current_thread() is threading.main_thread()))
        return f"program of {self.rows}"


@pytest.fixture
def may():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def compiled():
    return []


@pytest.fixture
def lower(compiled, may):
    return lambda shape: Lowered(shape, compiled, may)


@pytest.fixture
def said():
    return []


def test_the_programs_are_made_in_order_and_it_says_so_at_both_ends(lower, may, compiled, said):
    may.set()
    with CompilePool(SHAPES, 1, said.append) as programs:
        programs.begin(lower)
        programs._pool.shutdown()
        for shape in SHAPES:
            rows = shape["inputs"][0]
            assert programs.program(batch_of(shape)) == f"program of {rows}"
    assert compiled == [(4, False), (10, False), (3, False)]
    assert len(said) == 1


def test_what_is_needed_now_does_not_wait_for_its_turn(lower, may, compiled):
    with CompilePool(SHAPES, 1, print) as programs:
        programs.begin(lower)
        threading.Timer(0.3, may.set).start()
        assert programs.program(batch_of(SHAPES[2])) == "program of 3"
        assert (3, True) in compiled  # the thread is still at the first


def test_a_signal_ends_the_wait(lower, may, monkeypatch):
    with CompilePool(SHAPES, 1, print) as programs:
        programs.begin(lower)
        monkeypatch.setattr(process, "received_signal", lambda: 15)
        with pytest.raises(CancelledError):
            programs.program(batch_of(SHAPES[0]))
        may.set()


def test_at_the_end_it_waits_for_what_is_at_work_and_for_no_more(lower, may, compiled):
    with CompilePool(SHAPES, 1, print) as programs:
        programs.begin(lower)
        threading.Timer(0.3, may.set).start()
    assert compiled == [(4, False)]


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
def test_it_is_for_gpus_and_shapes_that_the_steps_will_need(
    dataset, kind, steps, count, lower, may, said
):
    may.set()
    with distribution.compile_ahead(dataset, Devices(kind=kind), steps, said.append) as programs:
        programs.begin(lower)
        found = [programs.program(batch_of(shape)) for shape in SHAPES]
    assert found == [f"program of {r}" for r in (4, 10, 3)][:count] + [None] * (3 - count)
    assert bool(said) == bool(count)
