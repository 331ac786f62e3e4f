"""The training step under JAX: a pure function of the state."""

import jax
import keras
from jax import numpy as jnp


def variables(model) -> tuple[list, list, list]:
    """Returns the model's variables whose values are the state of `step`."""
    return model.trainable_variables, model.non_trainable_variables, model.optimizer.variables


def step(model, state, batch, observed):
    """Makes a step.

    Args:
        model: built and compiled; so is its optimizer.
        state: the values of `variables`.
        batch: {"inputs", "targets"} of int32 (B, length).
        observed: bool (), whether the norms are wanted.

    Returns:
        The next state, the loss, whether the step was applied, and float32 (variables,): the square
        of each gradient's norm without the loss's scale, or zeros.
    """
    trainable, other, slots = state
    optimizer = model.optimizer
    gradients, (loss, other) = jax.grad(
        lambda trainable: _scaled_loss(model, (trainable, other, slots), batch), has_aux=True
    )(trainable)
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    checked = [loss] if scales_loss else [loss, *gradients]
    finite = jnp.isfinite(jnp.stack([jnp.sum(part) for part in checked])).all()

    def squares():
        with _holding(model.optimizer.variables, slots):
            scale = optimizer.scale_loss(1.0)
        return jnp.stack([jnp.sum(jnp.square(g.astype("float32") / scale)) for g in gradients])

    nothing = jnp.zeros(len(gradients))
    observed_squares = jax.lax.cond(observed, squares, lambda: nothing)
    trainable, slots = jax.lax.cond(
        finite,
        lambda: optimizer.stateless_apply(slots, gradients, trainable),
        lambda: (trainable, slots),
    )
    return (trainable, other, slots), loss, finite, observed_squares


def _scaled_loss(model, state, batch):
    """Returns the scaled loss, and with it the loss and the next non-trainable values."""
    trainable, other, slots = variables(model)
    with _holding([*trainable, *other, *slots], [value for part in state for value in part]) as now:
        loss = model.train_loss(batch)
        scaled = model.optimizer.scale_loss(loss)
    return scaled, (loss, [now.get_current_value(variable) for variable in other])


def _holding(variables: list, values: list) -> keras.StatelessScope:
    """Returns the context in which the variables have these values."""
    return keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True)))
