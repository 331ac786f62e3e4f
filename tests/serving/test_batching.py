"""Which sentences are computed together, and that each gets its own answer."""

import threading
import time

from t2t_repro.serving.batching import Batcher


def test_long_ones_and_other_kinds_wait_for_a_batch_of_their_own():
    batches, go, began = [], threading.Event(), threading.Event()

    def compute(payloads):
        batches.append(list(payloads))
        began.set()
        assert go.wait(20)
        return payloads

    batcher = Batcher({"a": compute, "b": compute}, batch_timeout=0.0)
    batcher.submit("a", ["first"], [1])
    assert began.wait(20)
    texts = {"short": 3, "long": 100, "other": 3, "as short": 32, "twice": 200, "longest": 300}
    for text, tokens in texts.items():
        batcher.submit("b" if text == "other" else "a", [text], [tokens])
    go.set()
    batcher.close()
    assert batches[1:] == [["short", "as short"], ["long", "twice"], ["other"], ["longest"]]


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
