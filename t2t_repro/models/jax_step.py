"""The training step under JAX, of `Model.fit` and of t2t-trainer: a pure function of the state."""

import jax
import keras
from jax import numpy as jnp

from t2t_repro.models import clipping


def variables(model) -> tuple[list, list, list]:
    """Returns the model's variables whose values are the state of `train_step`."""
    return model.trainable_variables, model.non_trainable_variables, model.optimizer.variables


def train_step(model, state, batch, sample_weight=None, observed=None):
    """Makes a step.

    Args:
        model: built and compiled; so is its optimizer.
        state: the values of `variables`.
        batch: {"inputs", "targets"} of int32 (B, length).
        sample_weight: float32 (B, T), or None.
        observed: bool (), whether the norms are wanted; None: they never are.

    Returns:
        The next state, the loss, whether the step was applied, float32 (variables,): the square of
        each gradient's norm without the loss's scale, or zeros, and the logits as `model.loss_of`
        gives them.
    """
    trainable, other, slots = state
    gradients, (loss, other, logits) = jax.grad(
        lambda trainable: _scaled_loss(model, (trainable, other, slots), batch, sample_weight),
        has_aux=True,
    )(trainable)
    with holding(model.optimizer.variables, slots):
        scale = model.optimizer.scale_loss(1.0)
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        checked = [loss, 1.0 / scale]  # a scale of 0: no step can be made
    elif clipping.by_global_norm(model.optimizer):
        # The norm may be infinite although no gradient is.
        checked = [loss, sum(jnp.sum(jnp.square(gradient)) for gradient in gradients)]
    else:
        checked = [loss, *gradients]
    finite = jnp.isfinite(jnp.stack([jnp.sum(part) for part in checked])).all()
    squares = nothing = jnp.zeros(len(gradients))

    def squares_of():
        each = [jnp.sum(jnp.square(g.astype("float32") / scale)) for g in gradients]
        return jnp.asarray(each, "float32")  # not stacked: there may be nothing to train

    if observed is not None:
        squares = jax.lax.cond(observed, squares_of, lambda: nothing)
    trainable, slots = jax.lax.cond(
        finite,
        lambda: model.optimizer.stateless_apply(slots, gradients, trainable),
        lambda: (trainable, slots),
    )
    return (trainable, other, slots), loss, finite, squares, logits


def _scaled_loss(model, state, batch, sample_weight):
    """Returns the scaled loss; with it the loss, the next non-trainable values and the logits."""
    trainable, other, slots = variables(model)
    with holding([*trainable, *other, *slots], [value for part in state for value in part]) as now:
        loss, logits = model.loss_of(batch, sample_weight)
        scaled = model.optimizer.scale_loss(loss)
    return scaled, (loss, [now.get_current_value(variable) for variable in other], logits)


def holding(variables: list, values: list) -> keras.StatelessScope:
    """Returns the context in which the variables have these values; `add_loss` works in it."""
    pairs = list(zip(variables, values, strict=True))
    return keras.StatelessScope(state_mapping=pairs, collect_losses=True)
