"""The training step under JAX: as that of TensorFlow, compiled once for each shape of a batch."""

from collections.abc import Callable

import jax
import keras
import numpy as np
from jax import numpy as jnp

from t2t_repro.training.devices import Devices


def step_function(
    model: keras.Model, devices: Devices
) -> Callable[[dict, bool], tuple[float, bool, jax.Array]]:
    """Returns a function that trains `model` on one batch: its loss, whether it was applied.

    It is not where the loss or a gradient is not finite; then only the seeds went on. The third
    result are the squared norms of the gradients where the second argument asks for them, else 0.

    Args:
        model: built and compiled.
        devices: what `devices.choose` returned. They take equal shares of each batch, and must
            divide its rows.
    """
    optimizer = model.optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)

    def loss_of(trainable, other, slots, batch):
        logits, other = model.stateless_call(trainable, other, batch, training=True)
        loss = model.compute_loss(x=batch, y_pred=logits, training=True)
        with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, slots, strict=True))):
            scaled = optimizer.scale_loss(loss)
        return scaled, (loss, other)

    def squares_of(gradients, slots):
        with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, slots, strict=True))):
            scale = optimizer.scale_loss(1.0)
        return jnp.stack([jnp.sum(jnp.square(g.astype("float32") / scale)) for g in gradients])

    def step(state, batch, observed):
        trainable, other, slots = state
        with_gradients = jax.grad(loss_of, has_aux=True)
        gradients, (loss, other) = with_gradients(trainable, other, slots, batch)
        checked = [loss] if scales_loss else [loss, *gradients]
        finite = jnp.isfinite(jnp.stack([jnp.sum(part) for part in checked])).all()
        nothing = jnp.zeros(len(gradients))
        squares = jax.lax.cond(observed, lambda: squares_of(gradients, slots), lambda: nothing)
        trainable, slots = jax.lax.cond(
            finite,
            lambda: optimizer.stateless_apply(slots, gradients, trainable),
            lambda: (trainable, slots),
        )
        return (trainable, other, slots), loss, finite, squares

    if devices.strategy is None:
        compiled = jax.jit(step, donate_argnums=0)
    else:  # all of them hold the whole state
        mesh = devices.strategy.device_mesh.backend_mesh
        whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        compiled = jax.jit(step, donate_argnums=0, out_shardings=(whole,) * 4)

    def place(ids: np.ndarray):
        if devices.strategy is None:
            return ids
        return jax.device_put(ids, devices.strategy.get_data_layout(ids.shape).backend_layout)

    def run(batch: dict, observed: bool) -> tuple[float, bool, jax.Array]:
        state = tuple([variable.value for variable in group] for group in variables)
        batch = {name: place(ids) for name, ids in batch.items()}
        state, loss, finite, squares = compiled(state, batch, observed)
        for group, values in zip(variables, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        return float(loss), bool(finite), squares

    return run
