"""What Keras hands over, as a batch: x, y and sample_weight of `fit` and the like."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.errors import UserError

_FORMS = '{"inputs": ..., "targets": ...} or (inputs, targets), ids of int32 (B, length)'


class FitCallback(keras.callbacks.Callback):
    """A callback that checks or changes what `fit` of a GuardedModel is given, before Keras."""

    def prepare(self, **arguments: Any) -> dict[str, Any]:
        """Returns what `fit` is to be given instead of these arguments."""
        raise NotImplementedError


def callbacks_in(given: Any) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of `fit` and the like: of a list, a CallbackList, one or None."""
    return keras.tree.flatten(getattr(given, "callbacks", given) or ())


def prepared(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `fit` as its callbacks change them."""
    for callback in callbacks_in(arguments.get("callbacks")):
        if isinstance(callback, FitCallback):
            arguments = callback.prepare(**arguments)
    return arguments


class OneLength(keras.callbacks.Callback):
    """Refuses batches of several lengths, whose logits `predict` cannot put together.

    Under JAX Keras fails at the end, and under TensorFlow it returns a RaggedTensor.
    """

    def on_predict_begin(self, logs=None):
        self._shapes = None

    def on_predict_batch_end(self, batch, logs=None):
        shapes = [tuple(np.shape(output)[1:]) for output in keras.tree.flatten(logs)]
        before, self._shapes = self._shapes or shapes, shapes
        if shapes != before:
            raise UserError(
                "Expected batches of targets of one length, for predict to return one array of "
                f"logits. Received: logits {shapes[0]} behind {before[0]}. Pad all to one length, "
                "call predict_on_batch with each batch, or translate by t2t_repro.decode."
            )


def as_batch(x: Any, y: Any = None) -> dict:
    """Returns {"inputs", "targets"}, and what else `x` has if it is a dict.

    Args:
        x: the inputs; or both, as a dict or a pair.
        y: the targets, if `x` is without. The model itself shifts them for its decoder.

    Raises:
        UserError: if one is missing or there twice, or is not of ids.
    """
    if isinstance(x, tuple | list) and len(x) == 2:
        x = dict(zip(("inputs", "targets"), x, strict=True))
    elif not isinstance(x, dict):
        x = {"inputs": x}
    if y is not None and "targets" in x:
        raise UserError(
            "Expected the targets once: the model itself shifts them for its decoder. Received: "
            f"targets in x, and y. Give {_FORMS}."
        )
    batch = x if y is None else {**x, "targets": y}
    for name in ("inputs", "targets"):
        if name not in batch:
            found = ", ".join(map(str, batch)) or "nothing"
            raise UserError(
                f"Expected {_FORMS}. Received: {found}. Each target is predicted from those before "
                "it; t2t_repro.decode(model, inputs) translates."
            )
        _check_ids(name, batch[name])
    return batch


def check_arrays(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Refuses what a step would, or what it would compute nonsense of.

    One that fails under JAX takes the weights with it, and an id without a row in its table is
    computed there as not a number. Data that are no arrays, such as a dataset, are as yet unknown,
    and pass; `CheckedBatches` asks again.

    Args:
        x, y: as `as_batch`.
        sample_weight: as `token_weights`.
        sizes: {"inputs", "targets"}: of the vocabularies, as far as known.
    """
    if _is_arrays(x):
        batch = as_batch(x, y)
        for name in ("inputs", "targets"):
            ids, size = batch[name], sizes.get(name)
            if isinstance(ids, keras.KerasTensor):
                continue
            _check_ids(name, ids := np.asarray(ids))  # its values, too, where it was a tensor
            if size is not None and ids.max(initial=0) >= size:
                raise UserError(
                    f"Expected {name} to be ids below {size}, the model's {name}_vocab_size. "
                    f"Received: {ids.max()}. Give it a vocab_size of all ids, as its encoder has."
                )
        if hasattr(sample_weight, "shape"):
            _check_weights(sample_weight, batch["targets"])


def with_targets_apart(given: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments of `fit` or `evaluate`, the targets of weighted arrays as their y.

    Keras leaves the weights of data without y out.
    """
    changed = {}
    if given.get("sample_weight") is not None:
        changed["x"], changed["y"] = _targets_apart(given.get("x"), given.get("y"))
    validation = given.get("validation_data")
    if isinstance(validation, tuple | list) and len(validation) == 3:
        x, y, weights = validation
        changed["validation_data"] = (*_targets_apart(x, y), weights)
    return given | changed


def _targets_apart(x: Any, y: Any) -> tuple[Any, Any]:
    if y is not None or not _is_arrays(x):
        return x, y
    batch = dict(as_batch(x))
    return batch, batch.pop("targets")


def _is_arrays(x: Any) -> bool:
    pair = isinstance(x, tuple | list) and len(x) == 2 and all(hasattr(a, "shape") for a in x)
    return pair or isinstance(x, dict) or hasattr(x, "shape")


class CheckedBatches(keras.utils.PyDataset):
    """A PyDataset of a user's, whose batches are checked before a device has them.

    Args:
        data: it.
        sizes: as `check_arrays`.
    """

    def __init__(self, data: keras.utils.PyDataset, sizes: Mapping[str, int]):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._sizes = data, sizes

    @property
    def num_batches(self) -> int | None:
        """As the data say."""
        return self._data.num_batches

    def __getitem__(self, index: int) -> Any:
        batch = self._data[index]
        x, y, weights, *_ = (*(batch if isinstance(batch, tuple) else (batch,)), None, None)
        check_arrays(x, y, weights, self._sizes)
        # Keras takes no None between the others under TensorFlow.
        return batch if weights is None else (*_targets_apart(x, y), weights)

    def on_epoch_begin(self) -> None:
        """Tells the data."""
        self._data.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Tells the data."""
        self._data.on_epoch_end()


def checked(data: Any, sizes: Mapping[str, int]) -> Any:
    """Returns data of `fit` and the like with its batches checked, where it is a PyDataset."""
    if not isinstance(data, keras.utils.PyDataset):
        return data
    return CheckedBatches(data, sizes)


def _check_ids(name: str, ids: Any) -> None:
    if not hasattr(ids, "dtype") or hasattr(ids, "to_tensor"):  # a ragged one has both
        raise UserError(
            f"Expected {name} to be an array of int32 (B, length). Received: a "
            f"{type(ids).__name__}. Give an array, padded with 0; an encoder makes ids of text."
        )
    try:
        dtype = keras.backend.standardize_dtype(ids.dtype)
    except ValueError:
        dtype = str(ids.dtype)  # of text, or of objects such as lists of several lengths
    if "int" not in dtype or len(ids.shape) != 2:
        raise UserError(
            f"Expected {name} to be int32 (B, length). Received: {dtype} {tuple(ids.shape)}. An "
            'encoder makes ids of text, to be padded with 0; a keras.Input has dtype="int32".'
        )
    if isinstance(ids, np.ndarray) and ids.min(initial=0) < 0:
        raise UserError(
            f"Expected {name} to be ids of at least 0, which is padding. Received: {ids.min()}. "
            "Pad with 0."
        )


def token_weights(sample_weight: Any, labels: Any) -> Any:
    """Returns float32 (B, T), the weight of each target; None of None.

    Args:
        sample_weight: (B,) or (B, 1) weighs sentences, (B, T) tokens.
        labels: int32 (B, T).

    Raises:
        UserError: if it has another shape.
    """
    if sample_weight is None:
        return None
    weights = ops.cast(sample_weight, "float32")
    if getattr(weights.shape, "rank", 0) is None:  # TensorFlow has traced both shapes by now
        weights = ops.reshape(weights, (ops.shape(labels)[0], -1))
    _check_weights(weights, labels)
    weights = weights[:, None] if len(weights.shape) == 1 else weights
    return ops.broadcast_to(weights, ops.shape(labels))


def _check_weights(weights: Any, labels: Any) -> None:
    shape, length = tuple(weights.shape), labels.shape[1]
    if len(shape) != 1 and (len(shape) != 2 or shape[1] not in (1, None, length or shape[1])):
        raise UserError(
            "Expected sample_weight to be (B,), a weight of each sentence, or (B, T), of each "
            f"target. Received: {shape} for targets {tuple(labels.shape)}."
        )
