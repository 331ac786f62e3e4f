"""A model's state in checkpoints: its weights, what its optimizer keeps, and its seeds."""

import os
import pathlib

import keras
import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.training import checkpoints, moving_average, named_variables
from t2t_repro.training.state import TRAINING, WEIGHTS, State, read_state_file


def save(directory: str | os.PathLike, model: keras.Model, state: State) -> pathlib.Path:
    """Writes `ckpt-STEP` into a folder of checkpoints.

    Args:
        directory: a run directory's `checkpoints`.
        model: built; its optimizer, if it has one, is saved too.
        state: where the run stands.
    """
    return checkpoints.write(pathlib.Path(directory), snapshot(model), state)


def snapshot(model: keras.Model) -> dict[str, dict[str, np.ndarray]]:
    """Returns {file: {name: array}} of a model as it stands: copies, which the next step leaves."""
    weights = named_variables.averaged_weights(model)
    moving_average.begin(model)
    training = named_variables.of_training(model) if getattr(model, "optimizer", None) else {}
    return {
        file: checkpoints.encode({name: np.array(variable) for name, variable in named.items()})
        for file, named in {WEIGHTS: weights, TRAINING: training}.items()
        if named
    }


def restore(model: keras.Model, path: str | os.PathLike) -> State:
    """Puts a checkpoint's weights, optimizer slots and seeds into a built, compiled model.

    Raises:
        UserError: if something does not fit (everything is listed), or it is an average.
    """
    path = pathlib.Path(path)
    content = read_state_file(path)
    state = content.state
    if TRAINING not in content.files:
        average = f" (an average of the steps {list(state.averaged)})" if state.averaged else ""
        raise UserError(
            f"Expected a checkpoint of training. Received: {path}, which holds weights only"
            f"{average}. Decode with it, continue the run that it was made from, or begin another "
            f"run with --warm_start_from={path}."
        )
    saved = checkpoints.read_arrays(path / TRAINING)
    weights = checkpoints.read_arrays(path / WEIGHTS)
    named_variables.assign(named_variables.averaged_weights(model), weights, path)
    named_variables.assign(named_variables.of_training(model), saved, path)
    return state


def load_weights(model: keras.Model, path: str | os.PathLike) -> State:
    """Puts weights alone into a built model.

    Args:
        model: the model that the checkpoint was made from.
        path: a run directory or a folder of checkpoints (the newest whole one is taken, in `best`
            the best), or one checkpoint.

    Raises:
        UserError: if there is no checkpoint, or it does not fit: every difference is listed.
    """
    path = checkpoints.find(path)
    state = checkpoints.read_state(path)
    named_variables.assign(
        named_variables.weights(model), checkpoints.read_arrays(path / WEIGHTS), path
    )
    return state
