"""What the server counts, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from t2t_repro.serving.batching import Batch

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """One server's counts.

    Args:
        queue_length: how many sentences wait now.
    """

    def __init__(self, queue_length: Callable[[], int]):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        labels = ["path", "status"]
        self._requests = Counter(
            "t2t_requests", "Requests, by path and status.", labels, registry=self.registry
        )
        self._latency = Histogram(
            "t2t_request_seconds",
            "From a request's head to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._sentences = Counter(
            "t2t_sentences", "Sentences that were translated.", registry=self.registry
        )
        self._batch_size = Histogram(
            "t2t_batch_size", "Jobs in a batch.", ["kind"], buckets=_SIZES, registry=self.registry
        )
        self._batch_seconds = Histogram(
            "t2t_batch_seconds",
            "What a batch takes to compute.",
            ["kind"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        queue = Gauge("t2t_queue_length", "Jobs that wait.", registry=self.registry)
        queue.set_function(queue_length)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self._requests.labels(path, str(status)).inc()
        self._latency.labels(path).observe(seconds)

    def batch(self, batch: Batch) -> None:
        """Counts a batch that was computed."""
        kind = batch.kind.partition(" ")[0]  # the model's name follows
        self._batch_size.labels(kind).observe(batch.size)
        self._batch_seconds.labels(kind).observe(batch.seconds)
        if kind == "translate":
            self._sentences.inc(batch.size)

    def text(self) -> bytes:
        """Returns all of it in Prometheus's text format."""
        return generate_latest(self.registry)
