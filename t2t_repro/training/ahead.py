"""The programs of a step under JAX, one for each shape of a batch: compiled ahead, several at once.

For a GPU that takes long, since XLA tries many programs for each product and keeps the fastest, and
a run has as many shapes as buckets. So threads make them, those of the most frequent shapes first,
and batches whose program is there are trained on meanwhile.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from t2t_repro import process, progress
from t2t_repro.process import available_cores
from t2t_repro.training.devices import Devices

FeatureShapes = Mapping[str, tuple[int, int]]  # {feature: (rows, length)}
Say = Callable[[str], None]
_LOOK = 0.2  # seconds from one look for a signal to the next


class CompilePool:
    """Compiles in threads; a context that waits at its end for those that are at work.

    Args:
        shapes: what to compile, in this order.
        at_once: how many threads.
        say: prints a line.
    """

    def __init__(
        self, shapes: Sequence[FeatureShapes] = (), at_once: int = 1, say: Say = progress.on_stderr
    ):
        self._shapes, self._at_once, self._say = shapes, at_once, say
        self._programs: dict[tuple, Future[Callable]] = {}
        self._pool = ThreadPoolExecutor(at_once)
        self._tracing = threading.Lock()  # Keras layers are not made to be traced side by side
        self._lower: Callable[[FeatureShapes], Any]  # that of `begin`

    def __enter__(self) -> "CompilePool":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, lower: Callable[[FeatureShapes], Any]) -> None:
        """Begins to compile what `lower` returns for each shape, a jax.stages.Lowered."""
        self._lower = lower
        for shape in self._shapes:
            self._programs[_key(shape)] = self._pool.submit(self._compiled, shape)
        if self._shapes:
            self._say(
                f"XLA compiles a step for each of {len(self._shapes)} shapes of a batch, "
                f"{self._at_once} at once."
            )

    def program(self, batch: Mapping[str, Any]) -> Callable | None:
        """Returns the program for a batch, once it is there; None: it is not among the shapes.

        Raises:
            CancelledError: on a signal, while it is not there.
        """
        shape = {name: ids.shape for name, ids in batch.items()}
        future = self._programs.get(_key(shape))
        if future is None:
            return None
        if future.cancel():  # no thread has come to it: what is needed is not to wait for others
            future = self._made_here(shape)
        while not future.done():
            if process.received_signal():
                raise CancelledError
            time.sleep(_LOOK)
        if future.exception():  # such as for want of the memory that the others took meanwhile
            future = self._made_here(shape)
        return future.result()

    def _made_here(self, shape: FeatureShapes) -> Future[Callable]:
        future: Future[Callable] = Future()
        future.set_result(self._compiled(shape))
        self._programs[_key(shape)] = future
        return future

    def _compiled(self, shape: FeatureShapes) -> Callable:
        with self._tracing:
            lowered = self._lower(shape)
        return lowered.compile()


def of(dataset: Any, devices: Devices, steps: int, say: Say) -> CompilePool:
    """Returns what is worth compiling ahead: on GPUs under JAX, shapes that `steps` will need.

    Args:
        dataset: of `pipeline.make_dataset`; another's shapes are compiled as they come.
        devices: what trains.
        steps: how many batches are to come.
        say: see `CompilePool`.
    """
    shares = getattr(dataset, "shares", ())
    needed = [shape for share, shape in shares if share * steps >= 1]
    if devices.kind != "GPU" or len(needed) < 2:
        return CompilePool()
    return CompilePool(needed, min(len(needed), max(1, available_cores() // 2)), say)


def _key(shape: FeatureShapes) -> tuple:
    return tuple(sorted((name, tuple(size)) for name, size in shape.items()))
