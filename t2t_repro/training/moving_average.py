"""The exponential moving average of the weights, which the optimizer keeps (hparam ema_decay).

A checkpoint's weights are the averages, so that what evaluates, decodes, exports or averages takes
them; its training state has the weights as they were trained, so that a run goes on exactly.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

Values = list[tuple[keras.Variable, Any]]  # arrays or variables of the weights' shapes


def averages(model: keras.Model) -> dict[int, keras.Variable]:
    """Returns {id of a weight: its moving average}; {} where the optimizer keeps none."""
    optimizer = _optimizer(model)
    if optimizer is None or not (optimizer.use_ema and optimizer.built):
        return {}
    pairs = zip(
        optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True
    )
    return {id(weight): average for weight, average in pairs}


def begin(model: keras.Model) -> None:
    """Sets the averages to the weights, unless an update has been made."""
    of = averages(model)
    if not of:
        return
    optimizer = _optimizer(model)
    batches = int(np.asarray(optimizer.iterations))
    if batches >= getattr(optimizer, "accumulate_steps", 1):  # Keras's own count updates
        return
    for weight in model.weights:
        if id(weight) in of:
            of[id(weight)].assign(np.array(weight))  # a copy: JAX would share the memory


def in_place(model: keras.Model) -> contextlib.AbstractContextManager[None]:
    """Lets the model compute by the averages as long as the context lasts."""
    begin(model)
    of = averages(model)
    return having([(weight, of[id(weight)]) for weight in model.weights if id(weight) in of])


def trained(model: keras.Model) -> Values:
    """Returns copies of the weights that have an average."""
    of = averages(model)
    return [(weight, np.array(weight)) for weight in model.weights if id(weight) in of]


def _optimizer(model: keras.Model) -> Any:
    """Returns what keeps the averages: the optimizer, or that inside one that scales the loss."""
    optimizer = getattr(model, "optimizer", None)
    return getattr(optimizer, "inner_optimizer", optimizer)


@contextlib.contextmanager
def having(values: Values) -> Iterator[None]:
    """Lets weights have other values as long as the context lasts."""
    before = [(weight, np.array(weight)) for weight, _ in values]
    for weight, value in values:
        weight.assign(value)
    try:
        yield
    finally:
        for weight, value in before:
            weight.assign(value)
