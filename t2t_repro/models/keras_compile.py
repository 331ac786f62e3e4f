"""What `compile` of a model that returns logits can take."""

import inspect
from collections.abc import Callable
from typing import Any

import keras

from t2t_repro.errors import UserError

_OF_PROBABILITIES = ("crossentropy", "ce")  # names that Keras resolves only when it sees the data


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
        _check_takes_ids(each)


def check_metrics(**metrics: Any) -> None:
    """Refuses metrics that take the logits for probabilities; as `check_loss`."""
    for argument, given in metrics.items():
        for each in keras.tree.flatten(given):
            _check_takes_logits(argument, each, keras.metrics.get)


def _check_takes_logits(argument: str, given: Any, get: Callable) -> None:
    if given is None or str(given).lower() in ("accuracy", "acc"):
        return
    if str(given).lower() in _OF_PROBABILITIES:
        takes_logits = False
    else:
        resolved = get(given)
        if hasattr(resolved, "get_config"):
            takes_logits = _config(resolved).get("from_logits", True)
        else:
            parameters = inspect.signature(resolved).parameters
            takes_logits = "from_logits" not in parameters
    if not takes_logits:
        module = "losses" if argument == "loss" else "metrics"
        raise UserError(
            f"Expected {argument} of logits, which the model returns. Received: {given!r}, which "
            f"is of probabilities. Give keras.{module}.SparseCategoricalCrossentropy("
            "from_logits=True)" + (", or no loss: the model has T2T's own." * (module == "losses"))
        )


def _check_takes_ids(loss: Any) -> None:
    """Refuses one of Keras's that takes no id for a token."""
    resolved = keras.losses.get(loss)
    kind = resolved if inspect.isfunction(resolved) else type(resolved)
    of_keras = getattr(keras.losses, kind.__name__, None) is kind
    if of_keras and "sparse" not in kind.__name__.lower():
        raise UserError(
            "Expected a loss of each token, of ids (B, T) and logits (B, T, V). Received: "
            f"{loss!r}, which is of others. Give no loss: the model has T2T's own; "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True); or a function."
        )


def _config(given: Any) -> dict[str, Any]:
    """Returns the configuration of a loss or metric; {} of one of a user's that has none."""
    try:
        return given.get_config()
    except NotImplementedError:
        return {}
