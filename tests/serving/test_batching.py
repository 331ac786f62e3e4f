"""Which sentences are computed together, and that each gets its own answer."""

import logging
import threading
import time

import pytest

from t2t_repro.serving.batching import Batcher, Closed, QueueFull


class Computer:
    """A batcher whose first batch waits for `go`, so that a test can fill the queue behind it."""

    def __init__(self, **settings):
        self.batches, self.observed = [], []
        self.go, began = threading.Event(), threading.Event()

        def compute(payloads):
            self.batches.append(list(payloads))
            began.set()
            assert self.go.wait(20)
            if "bad" in payloads:
                raise RuntimeError("bad")
            return [str(payload).upper() for payload in payloads]

        both = {"a": compute, "b": compute}

        def observe(kind, size, seconds):
            self.observed.append((kind, size, seconds >= 0))

        self.batcher = Batcher(both, observe=observe, batch_timeout=0.0, **settings)
        self.first = self.batcher.submit("a", ["first"], [1])[0]
        assert began.wait(20)

    def finish(self):
        self.go.set()
        self.batcher.close()
        return self.batches[1:]


def test_each_gets_its_own_answer_in_batches_of_the_largest_size():
    computer = Computer(max_batch_size=3)
    texts = [f"text {i}" for i in range(7)]
    futures = computer.batcher.submit("a", texts, [4] * 7)
    assert len(computer.batcher) == 7
    assert computer.finish() == [texts[:3], texts[3:6], texts[6:]]
    assert [future.result(1) for future in futures] == [text.upper() for text in texts]
    assert computer.first.result(1) == "FIRST"
    assert computer.observed == [("a", n, True) for n in (1, 3, 3, 1)]


def test_long_ones_and_other_kinds_wait_for_a_batch_of_their_own():
    computer = Computer()
    texts = {"short": 3, "long": 100, "other": 3, "as short": 32, "twice": 200, "longest": 300}
    for text, tokens in texts.items():
        computer.batcher.submit("b" if text == "other" else "a", [text], [tokens])
    assert computer.finish() == [["short", "as short"], ["long", "twice"], ["other"], ["longest"]]


def test_a_sentence_waits_for_others_but_not_for_long():
    batches = []

    def compute(payloads):
        batches.append(list(payloads))
        return payloads

    batcher = Batcher({"a": compute}, batch_timeout=0.3, max_batch_size=3)
    start = time.monotonic()
    futures = [batcher.submit("a", [i], [1])[0] for i in range(2)]
    assert [future.result(10) for future in futures] == [0, 1]
    assert time.monotonic() - start >= 0.3
    full = batcher.submit("a", [2, 3, 4], [1, 1, 1])
    assert [future.result(10) for future in full] == [2, 3, 4]
    assert batches == [[0, 1], [2, 3, 4]]
    batcher.close()


def test_the_queue_is_bounded_and_takes_all_of_a_request_or_none():
    computer = Computer(max_queue=4)
    computer.batcher.submit("a", ["1", "2", "3"], [1, 1, 1])
    with pytest.raises(QueueFull):
        computer.batcher.submit("a", ["4", "5"], [1, 1])
    assert len(computer.batcher) == 3
    computer.batcher.submit("a", ["4"], [1])
    assert computer.finish() == [["1", "2", "3", "4"]]


def test_what_is_cancelled_makes_room_and_is_not_computed():
    computer = Computer(max_queue=2)
    gone, kept = computer.batcher.submit("a", ["gone", "kept"], [1, 1])
    assert gone.cancel()
    computer.batcher.submit("a", ["new"], [1])
    assert computer.finish() == [["kept", "new"]]
    assert kept.result(1) == "KEPT"


def test_one_that_fails_takes_no_other_along(caplog):
    computer = Computer()
    good, bad, last = computer.batcher.submit("a", ["good", "bad", "last"], [1, 1, 1])
    with caplog.at_level(logging.ERROR):
        assert computer.finish() == [["good", "bad", "last"], ["good"], ["bad"], ["last"]]
    assert (good.result(1), last.result(1)) == ("GOOD", "LAST")
    with pytest.raises(RuntimeError, match="bad"):
        bad.result(1)
    assert "A job failed: a." in caplog.text


def test_closing_computes_what_waits_and_takes_nothing_more():
    batcher = Batcher({"a": lambda payloads: payloads}, batch_timeout=60.0)
    (future,) = batcher.submit("a", ["late"], [1])
    assert batcher.working
    batcher.close()
    assert future.result(1) == "late"
    assert not batcher.working
    with pytest.raises(Closed):
        batcher.submit("a", ["too late"], [1])


def test_threads_that_have_nothing_to_do_share_what_waits():
    both = threading.Barrier(2)
    sizes = []

    def compute(payloads):
        both.wait(20)
        sizes.append(len(payloads))
        return payloads

    batcher = Batcher({"a": compute}, batch_timeout=0.01, searches=2)
    assert batcher.working
    futures = batcher.submit("a", [1, 2, 3, 4, 5], [7] * 5)
    assert [future.result(20) for future in futures] == [1, 2, 3, 4, 5]
    assert sorted(sizes) == [2, 3]
    batcher.close()
    assert not batcher.working
