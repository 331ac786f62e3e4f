"""Single sentences in, batches to the model: one queue, and threads that compute a batch each.

Sentences of one request may be computed in several batches, and one batch holds sentences of
several requests. Each sentence carries a future, which pairs its answer with it.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

_log = logging.getLogger(__name__)
_SHORT = 32  # tokens; below that, lengths make no difference worth a batch of its own

Compute = Callable[[list[Any]], Sequence[Any]]


class QueueFull(Exception):
    """The queue is full."""


class Closed(Exception):
    """The batcher is closed."""


@dataclasses.dataclass(eq=False)
class _Job:
    kind: str
    payload: Any
    tokens: int
    due: float  # when it waits no longer for others
    future: Future


class Batcher:
    """Collects jobs into batches of like lengths, the oldest first, and computes them in threads.

    Args:
        compute: {kind: a function from payloads to as many results, in their order}. Jobs of two
            kinds are never in one batch.
        max_batch_size: jobs in a batch.
        max_batch_tokens: tokens in a batch, each job counted as long as the longest.
        batch_timeout: seconds that a job waits for others to fill its batch.
        max_queue: jobs that wait.
        searches: threads that compute. Idle ones share the waiting jobs.
        observe: called with kind, size and seconds of each batch, in its thread.
    """

    def __init__(
        self,
        compute: Mapping[str, Compute],
        *,
        max_batch_size: int = 32,
        max_batch_tokens: int = 4096,
        batch_timeout: float = 0.005,
        max_queue: int = 256,
        searches: int = 1,
        observe: Callable[[str, int, float], None] = lambda kind, size, seconds: None,
    ):
        self._compute = compute
        self._max_size, self._max_tokens = max_batch_size, max_batch_tokens
        self._timeout, self._max_queue = batch_timeout, max_queue
        self._observe = observe
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._closed = False
        self._idle = searches
        self._threads = [
            threading.Thread(target=self._work, name=f"batcher {i}", daemon=True)
            for i in range(searches)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """How many jobs wait."""
        return len(self._waiting)

    @property
    def working(self) -> bool:
        """Whether submitted jobs will be computed."""
        return all(thread.is_alive() for thread in self._threads) and not self._closed

    def submit(self, kind: str, payloads: Sequence[Any], tokens: Sequence[int]) -> list[Future]:
        """Queues all of the payloads, or none.

        Args:
            kind: which function computes them.
            payloads: the arguments of that function.
            tokens: how long each is.

        Returns:
            A future for each payload. Cancelled before its batch begins, it is not computed.

        Raises:
            QueueFull: if they do not all fit.
            Closed: after `close`.
        """
        due = time.monotonic() + self._timeout
        jobs = [_Job(kind, p, n, due, Future()) for p, n in zip(payloads, tokens, strict=True)]
        with self._changed:
            if self._closed:
                raise Closed
            self._forget_cancelled()
            if len(self._waiting) + len(jobs) > self._max_queue:
                raise QueueFull
            self._waiting += jobs
            self._changed.notify_all()
        return [job.future for job in jobs]

    def close(self) -> None:
        """Computes the waiting jobs, and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while batch := self._next():
            batch = [job for job in batch if job.future.set_running_or_notify_cancel()]
            if batch:
                self._run(batch)
            with self._changed:
                self._idle += 1

    def _next(self) -> list[_Job]:
        """Waits for a batch; an empty one is the end."""
        with self._changed:
            while True:
                self._forget_cancelled()
                if not self._waiting:
                    if self._closed:
                        return []
                    self._changed.wait()
                    continue
                batch = self._oldest_and_like()
                left = batch[0].due - time.monotonic()
                if len(batch) == self._max_size or left <= 0 or self._closed:
                    share = -(-len(batch) // self._idle)
                    for job in batch[share:]:  # it has waited for others already
                        job.due = 0.0
                    taken = set(batch[:share])
                    self._waiting = [job for job in self._waiting if job not in taken]
                    self._idle -= 1
                    return batch[:share]
                self._changed.wait(left)

    def _forget_cancelled(self) -> None:
        self._waiting = [job for job in self._waiting if not job.future.cancelled()]

    def _oldest_and_like(self) -> list[_Job]:
        """Returns the oldest job, so that none waits for ever, and others of about its cost."""
        batch: list[_Job] = []
        oldest, longest = self._waiting[0], 0
        alike = [j for j in self._waiting if j.kind == oldest.kind and _alike(j, oldest)]
        for job in alike[: self._max_size]:
            longest = max(longest, job.tokens)
            if batch and (len(batch) + 1) * longest > self._max_tokens:
                break
            batch.append(job)
        return batch

    def _run(self, batch: list[_Job]) -> None:
        start = time.perf_counter()
        try:
            results = self._compute[batch[0].kind]([job.payload for job in batch])
            pairs = list(zip(batch, results, strict=True))
        except Exception as error:
            if len(batch) > 1:  # one may be to blame, or all together need too much memory
                for job in batch:
                    self._run([job])
                return
            _log.exception("A job failed: %s.", batch[0].kind)
            batch[0].future.set_exception(error)
            return
        for job, result in pairs:
            job.future.set_result(result)
        self._observe(batch[0].kind, len(batch), time.perf_counter() - start)


def _alike(a: _Job, b: _Job) -> bool:
    return max(a.tokens, b.tokens) <= max(2 * min(a.tokens, b.tokens), _SHORT)
