"""The state of a model under JAX, while Keras trains, evaluates or predicts."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def kept(model: keras.Model) -> Iterator[None]:
    """Gives a model its state back where what is done within fails, or is interrupted.

    Under JAX Keras takes the values out of the variables before the first batch, and puts back
    those of the newest one: of a first batch that fails there are none, and `evaluate` and
    `predict` put back nothing where a later one fails. The model would have no weights from then
    on. Under other backends nothing is taken out.
    """
    if keras.backend.backend() != "jax" or not model.built:
        yield
        return
    if model.optimizer is not None:
        model.optimizer.build(model.trainable_variables)
    before = [(variable, variable.value) for variable in _variables(model)]
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        for variable, value in before:
            if not value.is_deleted():  # a batch that was trained on has deleted it
                variable.assign(value)
        raise


def _variables(model: keras.Model) -> list[keras.Variable]:
    """Returns what Keras takes out, but for the metrics, which every epoch resets."""
    of_optimizer = model.optimizer.variables if model.optimizer is not None else []
    return [*model.trainable_variables, *model.non_trainable_variables, *of_optimizer]
