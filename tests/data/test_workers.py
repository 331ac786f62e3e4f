import contextlib
import operator
import os

import pytest

from t2t_repro import process
from t2t_repro.data import workers
from t2t_repro.data.workers import Workers
from t2t_repro.errors import Interrupted, UserError


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order_and_blocks_when_they_are_needed(processes):
    taken = []

    def numbers():
        for number in range(30):
            taken.append(number)
            yield number

    with Workers(processes) as pool:
        results = pool.map(operator.neg, numbers())
        assert next(results) == 0
        assert len(taken) <= 6
        assert list(results) == [-number for number in range(1, 30)]
        assert list(pool.map(len, ["ab"])) == [2]
        assert list(pool.map(len, [])) == []


def test_an_error_in_a_process_arrives():
    with Workers(2) as pool, pytest.raises(TypeError):
        list(pool.map(operator.neg, ["a", "b", "c"]))


def test_a_killed_process_is_named():
    with Workers(2) as pool:
        with pytest.raises(UserError, match="2"):
            list(pool.map(os._exit, [9, 9, 9]))


def test_a_signal_waits_until_a_process_is_told_what_to_do(half_started):
    with pytest.raises(Interrupted), process.handle_signals(), Workers(2) as pool:
        list(pool.map(operator.neg, range(9)))
    with contextlib.suppress(ChildProcessError):  # the pool has waited for it
        os.waitpid(half_started[0], 0)
    assert len(half_started) == 1


def test_batches():
    assert list(workers.batched("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
