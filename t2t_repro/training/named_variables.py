"""The variables of a model by the names that a checkpoint has for them."""

import pathlib

import keras

from t2t_repro.training import checkpoints, moving_average


def weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the model's weights by path, without the model's own name, which Keras may number."""
    named = {}
    for variable in model.weights:
        name = variable.path.removeprefix(f"{model.name}/")
        if name in named:
            raise ValueError(f"Expected each weight to have its own path. Received two: {name}.")
        named[name] = variable
    return named


def averaged_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the model's weights by path, in the place of each its moving average if it has one.

    The optimizer is built by this.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    of = moving_average.averages(model)
    return {name: of.get(id(weight), weight) for name, weight in weights(model).items()}


def of_training(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns all else that a step changes: optimizer variables and seeds, in a stable order."""
    own = {id(variable) for variable in model.weights}
    seeds = [variable for variable in model.variables if id(variable) not in own]
    named = {f"seed/{index:04d}": variable for index, variable in enumerate(seeds)}
    of = moving_average.averages(model)
    for name, weight in weights(model).items():
        if id(weight) in of:
            named[f"trained/{name}"] = weight
    elsewhere = {id(average) for average in of.values()}
    for index, variable in enumerate(model.optimizer.variables):
        if id(variable) in elsewhere:
            continue
        named[f"optimizer/{index:04d}"] = variable  # its own name holds the model's, which varies
    return named


def assign(variables: dict[str, keras.Variable], values: dict, path: pathlib.Path) -> None:
    """Assigns the arrays of the checkpoint `path` to {name: variable}; raises as `check_shapes`."""
    checkpoints.check_shapes(
        {name: tuple(variable.shape) for name, variable in variables.items()}, values, path
    )
    for name, variable in variables.items():
        variable.assign(values[name])
