"""The training step under JAX: a pure function of the state."""

import jax
import keras
from jax import numpy as jnp

from t2t_repro.models import clipping


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
    (trainable, other, slots), gradients, loss, finite, _ = _differentiated(model, state, batch)

    nothing = jnp.zeros(len(gradients))
    squares = jax.lax.cond(observed, lambda: _squares_of(model, slots, gradients), lambda: nothing)
    return _applied(model, (trainable, other, slots), gradients, finite), loss, finite, squares


def fit(model, state, batch, sample_weight=None, observer=None):
    """Makes the step of `Model.fit`.

    Returns:
        The next state, `model.loss_and_logits` before it, and what `observer.metric` is to be told.
    """
    state, gradients, loss, finite, logits = _differentiated(model, state, batch, sample_weight)
    observed: tuple = ()
    if observer is not None:
        slots, nothing = state[2], jnp.zeros(len(gradients))
        with holding(model.optimizer.variables, slots):
            due = observer.is_due(model.optimizer.iterations.value)
        squares = jax.lax.cond(due, lambda: _squares_of(model, slots, gradients), lambda: nothing)
        observed = squares, due
    return _applied(model, state, gradients, finite), loss, logits, observed


def _squares_of(model, slots, gradients):
    """Returns float32 (variables,), the square of each gradient's norm without the loss's scale."""
    with holding(model.optimizer.variables, slots):
        scale = model.optimizer.scale_loss(1.0)
    squares = [jnp.sum(jnp.square(g.astype("float32") / scale)) for g in gradients]
    return jnp.asarray(squares, "float32")  # not stacked: there may be nothing to train


def _differentiated(model, state, batch, sample_weight=None):
    """Returns the state with the next seeds, the gradients, the loss, if all is finite, logits."""
    trainable, other, slots = state
    gradients, (loss, other, logits) = jax.grad(
        lambda trainable: _scaled_loss(model, (trainable, other, slots), batch, sample_weight),
        has_aux=True,
    )(trainable)
    scales_loss = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    if scales_loss:
        with holding(model.optimizer.variables, slots):
            scale = model.optimizer.scale_loss(1.0)
        checked = [loss, 1.0 / scale]  # a scale of 0: no step can be made
    elif clipping.by_global_norm(model.optimizer):
        # The norm may have no end where no gradient is without.
        checked = [loss, sum(jnp.sum(jnp.square(gradient)) for gradient in gradients)]
    else:
        checked = [loss, *gradients]
    finite = jnp.isfinite(jnp.stack([jnp.sum(part) for part in checked])).all()
    return (trainable, other, slots), gradients, loss, finite, logits


def _applied(model, state, gradients, finite):
    """Returns the state after the update, or as it is where something is not finite."""
    trainable, other, slots = state
    trainable, slots = jax.lax.cond(
        finite,
        lambda: model.optimizer.stateless_apply(slots, gradients, trainable),
        lambda: (trainable, slots),
    )
    return trainable, other, slots


def _scaled_loss(model, state, batch, sample_weight):
    """Returns the scaled loss; with it the loss, the next non-trainable values and the logits."""
    trainable, other, slots = variables(model)
    with holding([*trainable, *other, *slots], [value for part in state for value in part]) as now:
        loss, logits = model.loss_and_logits(batch, sample_weight)
        scaled = model.optimizer.scale_loss(loss)
    return scaled, (loss, [now.get_current_value(variable) for variable in other], logits)


def holding(variables: list, values: list) -> keras.StatelessScope:
    """Returns the context in which the variables have these values; `add_loss` works in it."""
    pairs = list(zip(variables, values, strict=True))
    return keras.StatelessScope(state_mapping=pairs, collect_losses=True)
