"""Batches without TensorFlow, for Keras on JAX."""

import collections
import concurrent.futures
import itertools
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np

from t2t_repro.data.few_shapes import Shape

AHEAD = 8  # batches that wait for who takes them


class NumpyBatches(keras.utils.PyDataset):
    """Batches as NumPy arrays, for a process without TensorFlow. A thread makes them in advance.

    `fit` and the like take it as it is, in its own order, whatever their `shuffle`.

    Args:
        batches: called for each pass; yields the records of each batch.
        parse: makes a batch of records.
        count: how many batches a pass has; None: it has no end.
        shares: shapes of batches, the most frequent first, each with its share of all batches:
            [(share, {feature: (rows, length)})]; (): they are not known.
    """

    def __init__(
        self,
        batches: Callable[[], Iterator[np.ndarray]],
        parse: Callable,
        count: int | None = None,
        shares: Sequence[tuple[float, dict[str, Shape]]] = (),
    ):
        super().__init__()
        self.shares = shares
        self._batches, self._parse, self._count = batches, parse, count
        self._rest: Iterator[dict[str, np.ndarray]] | None = None

    @property
    def num_batches(self) -> int | None:
        """How many a pass has; None: it has no end."""
        return self._count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Returns the next batch, which is what Keras wants by any index."""
        if self._rest is None:
            self._rest = itertools.chain.from_iterable(itertools.repeat(self))
        return next(self._rest)

    def on_epoch_end(self) -> None:
        """Begins a new pass, also where Keras took a part of one only."""
        if self._count is not None:
            self._rest = None

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        made = map(self._parse, self._batches())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = collections.deque(pool.submit(next, made, None) for _ in range(AHEAD))
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, made, None))
                yield batch

    as_numpy_iterator = __iter__  # as a tf.data.Dataset has it
