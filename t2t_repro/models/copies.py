"""The devices that hold a model's weights, a whole copy each, and the work that they share.

A model has a copy on each device if it was made in the scope of a `training.devices.Devices`. With
TensorFlow each device gets items of its own, such as batches: one after the other, each in the
thread of a device. JAX has one program for all devices, each of which takes its rows of a batch.
"""

import collections
import contextlib
import queue
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import keras
import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_DEVICE = ""  # wherever the backend computes


def devices_of(model: keras.Model) -> tuple[str, ...]:
    """Returns the names of the devices that have a copy each; or (DEFAULT_DEVICE,), one place."""
    value = _weight(model)
    if keras.backend.backend() != "tensorflow" or not hasattr(value, "distribute_strategy"):
        return (DEFAULT_DEVICE,)
    copies = getattr(value, "values", (value,))  # of several workers those of this one
    return tuple(copy.device for copy in copies) if len(copies) > 1 else (DEFAULT_DEVICE,)


@contextlib.contextmanager
def device_scope(model: keras.Model, device: str) -> Iterator[None]:
    """What TensorFlow traces in this context computes on a device, with the weights there."""
    if device == DEFAULT_DEVICE:
        yield
        return
    import tensorflow as tf

    # Only in its strategy's scope does a weight find the copy of a device.
    with _weight(model).distribute_strategy.scope(), tf.device(device):
        yield


def map_over_devices(
    work: Callable[[Item, str], Result], items: Iterable[Item], devices: Sequence[str]
) -> Iterator[Result]:
    """Yields `work(item, device)` of each item, in order; each device has one item at a time.

    With one device all is done in the caller's thread, and no item is read ahead. Otherwise two
    items a device are read ahead.
    """
    if len(devices) == 1:
        for item in items:
            yield work(item, devices[0])
        return
    # The last one used comes first: it has its program.
    free: queue.LifoQueue[str] = queue.LifoQueue()
    for device in reversed(devices):
        free.put(device)

    def on_a_free_one(item: Item) -> Result:
        device = free.get()
        try:
            return work(item, device)
        finally:
            free.put(device)

    waiting: collections.deque[Future[Result]] = collections.deque()
    with ThreadPoolExecutor(len(devices)) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(on_a_free_one, item))
                if len(waiting) > 2 * len(devices):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def shard_batch(
    model: keras.Model, data: Mapping[str, Any], whole: Collection[str] = ()
) -> dict[str, Any]:
    """Returns a batch for a program of JAX: each device that has a copy gets its rows.

    Arrays whose rows the devices do not divide evenly stay whole, and so does all on one device.

    Args:
        model: what the program computes with.
        data: nested arrays.
        whole: names of `data` that have no rows.
    """
    sharding = getattr(_weight(model), "sharding", None)
    if keras.backend.backend() != "jax" or sharding is None or sharding.num_devices == 1:
        return dict(data)
    import jax

    by_rows = jax.sharding.PartitionSpec(sharding.mesh.axis_names)
    sharding = jax.sharding.NamedSharding(sharding.mesh, by_rows)

    def place(array: Any) -> Any:
        even = len(array.shape) and array.shape[0] % sharding.num_devices == 0
        return jax.device_put(array, sharding) if even else np.asarray(array)

    return {
        name: value if name in whole else keras.tree.map_structure(place, value)
        for name, value in data.items()
    }


def _weight(model: keras.Model) -> Any:
    """Returns the backend's array or variable of the model's first weight, if it has any."""
    weights = getattr(model, "weights", ())  # what decodes need be no Keras model
    return weights[0].value if weights else None
