"""What `compile` of a model that returns logits can take."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras

from t2t_repro.errors import UserError

# Names that Keras resolves only when it sees the data.
_OF_PROBABILITIES = ("crossentropy", "ce")
_ACCURACY = ("accuracy", "acc")
# Metrics of Keras's that can take ids and logits, besides those with "sparse" in their names.
_OF_IDS = ("MeanMetricWrapper", "IoU", "MeanIoU")


def check_loss(loss: Any, loss_weights: Any) -> None:
    """Refuses several losses, one of probabilities or of no ids, and idle weights.

    Raises:
        UserError: which says what to give instead.
    """
    if loss is None and loss_weights is not None:
        raise UserError(
            "Expected no loss_weights: the model has one output, and its own loss unless `loss` "
            f"is given. Received: loss_weights={loss_weights!r}. Leave it out."
        )
    losses = keras.tree.flatten(loss)
    if len(losses) > 1 or isinstance(loss, dict):
        raise UserError(
            "Expected one loss, of labels and logits: the model has one output. Received: "
            f"{loss!r}. Give it by itself, or a function that puts several together."
        )
    for each in losses:
        _check_takes_logits("loss", each, keras.losses.get)
        if not _takes_ids(each, keras.losses):
            raise UserError(
                "Expected a loss of each token, of ids (B, T) and logits (B, T, V). Received: "
                f"{each!r}, which is of others. Give no loss: the model has T2T's own; "
                "keras.losses.SparseCategoricalCrossentropy(from_logits=True); or a function."
            )


def check_metrics(**metrics: Any) -> None:
    """Refuses metrics that take the logits for probabilities, or no ids; as `check_loss`."""
    for argument, given in metrics.items():
        for each in keras.tree.flatten(given):
            _check_takes_logits(argument, each, keras.metrics.get)
            takes_ids = str(each).lower() in _ACCURACY or _takes_ids(each, keras.metrics)
            if not takes_ids or isinstance(each, keras.losses.Loss):
                raise UserError(
                    f"Expected {argument} of ids (B, T) and logits (B, T, V). Received: {each!r}, "
                    'which is of others. Give "accuracy", "sparse_top_k_categorical_accuracy", or '
                    "a function."
                )


def _check_takes_logits(argument: str, given: Any, get: Callable) -> None:
    if given is None or str(given).lower() in _ACCURACY:
        return
    if str(given).lower() in _OF_PROBABILITIES:
        takes_logits = False
    else:
        resolved = get(given)
        if hasattr(resolved, "get_config"):
            takes_logits = _config(resolved).get("from_logits", True)
        else:
            parameter = inspect.signature(resolved).parameters.get("from_logits")
            takes_logits = parameter is None or parameter.default is True
    if not takes_logits:
        module = "losses" if argument == "loss" else "metrics"
        raise UserError(
            f"Expected {argument} of logits, which the model returns. Received: {given!r}, which "
            f"is of probabilities. Give keras.{module}.SparseCategoricalCrossentropy("
            "from_logits=True)" + (", or no loss: the model has T2T's own." * (module == "losses"))
        )


def _takes_ids(given: Any, module: ModuleType) -> bool:
    """Whether a loss or metric may take an id for a token: one of the user's, and some of Keras's.

    Args:
        given: as `compile` takes it.
        module: keras.losses or keras.metrics.
    """
    resolved = module.get(given)
    kind = resolved if inspect.isfunction(resolved) else type(resolved)
    if getattr(resolved, "sparse_y_pred", False):  # of an IoU: ids in the place of logits
        return False
    name = getattr(kind, "__name__", "")  # which a functools.partial has not
    of_keras = getattr(module, name, None) is kind
    return not of_keras or "sparse" in name.lower() or name in _OF_IDS


def _config(given: Any) -> dict[str, Any]:
    """Returns the configuration of a loss or metric; {} of one of a user's that has none."""
    try:
        return given.get_config()
    except NotImplementedError:
        return {}
