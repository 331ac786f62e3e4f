"""The training step of the model, compiled, on all the devices of a run, and its batches."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import keras
import numpy as np

from t2t_repro import process
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.training.ahead import CompilePool, FeatureShapes
from t2t_repro.training.devices import ONE, Devices

Observe = Callable[[np.ndarray], None]
# Of a batch and whether the norms are wanted: its loss, whether it was applied, the squared norms.
Compiled = Callable[[dict, bool], tuple[float, bool, Any]]


def batches(dataset) -> Iterator:
    """Yields the batches of a tf.data.Dataset; under JAX of any iterable."""
    if keras.backend.backend() != "tensorflow":
        return iter(getattr(dataset, "as_numpy_iterator", dataset.__iter__)())
    return iter(dataset)


def for_all_shapes(
    function: Callable, features: tuple[str, ...], jit_compile: bool, *more: Any
) -> Callable:
    """Returns a function of {feature: int32 (B, length)}, compiled by TensorFlow in one trace.

    Args:
        function: takes the batch, and what `more` describes by a tf.TensorSpec each.
        features: the names.
        jit_compile: whether by XLA.
        more: see `function`.
    """
    import tensorflow as tf

    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    options = {"autograph": False, "jit_compile": jit_compile or None}
    return tf.function(function, input_signature=[signature, *more], **options)


WHAT_TO_DO = "Lower learning_rate_constant, raise learning_rate_warmup_steps, or set clip_grad_norm"


class NotFinite(Exception):
    """A step whose loss or gradients are not finite; nothing of it was applied."""

    def __init__(self, loss: float):
        self.loss = loss
        super().__init__(f"loss {loss}" if not math.isfinite(loss) else "gradients")


class TrainStep(Protocol):
    """A training step."""

    def __call__(self, batch: dict, observe: Observe | None = None) -> float:
        """Trains on a batch and returns its loss; `observe` receives the gradients' norms."""


def step_function(
    model: GuardedModel, devices: Devices = ONE, ahead: CompilePool | None = None
) -> TrainStep:
    """Returns a function that trains `model` on one batch and returns its loss.

    It is the step of models/tensorflow_step.py or jax_step.py, as in `Model.fit`. The batch is that
    of a worker, {"inputs", "targets"} of int32 (B, length). Its devices take consecutive shards of
    it; under JAX they must divide its rows. Whoever wants the norms of the step's gradients, before
    they are clipped, gives a function as `observe`: it receives the square of each trainable
    variable's, in order, as float32. That costs a pass over the gradients, and changes nothing. Of
    several workers all ask or none.

    The loss is that of this batch before the update. Where it or a gradient is not finite the
    function raises NotFinite, and there was no update; where there is no memory, a UserError.

    Args:
        model: built and compiled; with run_eagerly, as Keras has it, TensorFlow traces nothing.
        devices: what `devices.choose` returned.
        ahead: of which shapes programs are made at once, under JAX.
    """
    if not model.optimizer.built:  # variables made while tracing would cost a second trace
        with devices.scope():
            model.optimizer.build(model.trainable_variables)
    if keras.backend.backend() != "tensorflow":
        step = _under_jax(model, devices, ahead)
    elif devices.strategy is None:
        step = _on_one_device(model)
    else:
        step = _on_replicas(model, devices)

    def run(batch: dict, observe: Observe | None = None) -> float:
        with naming_the_batch("a step", batch):
            loss, applied, squares = step(batch, observe is not None)
        if not applied:
            raise NotFinite(loss)
        if observe is not None:
            observe(np.asarray(squares))
        return loss

    return run


def _on_one_device(model: GuardedModel) -> Compiled:
    import tensorflow as tf

    from t2t_repro.models import tensorflow_step

    step = functools.partial(tensorflow_step.step, model)

    @functools.cache
    def compiled(features: tuple[str, ...]) -> Callable:
        # One trace for all the buckets' shapes; without a signature there would be three or four.
        observed = tf.TensorSpec([], tf.bool)
        return for_all_shapes(step, features, model.jit_compile, observed)

    def run(batch: dict, observed: bool) -> tuple[float, bool, Any]:
        function = step if model.run_eagerly else compiled(tuple(batch))
        loss, applied, squares = function(batch, tf.constant(observed))
        return float(loss), bool(applied), squares

    return run


def _on_replicas(model: GuardedModel, devices: Devices) -> Compiled:
    import tensorflow as tf

    from t2t_repro.models import tensorflow_step

    strategy = devices.strategy
    options = {"jit_compile": model.jit_compile or None, "autograph": False}

    def on_replica(batch):
        context = tf.distribute.get_replica_context()
        here = context.replica_id_in_sync_group - devices.first_replica
        rows = tf.shape(batch["targets"])[0]
        start, end = rows * here // devices.local, rows * (here + 1) // devices.local
        shard = {name: ids[start:end] for name, ids in batch.items()}
        loss, gradients, finite = tensorflow_step.gradients_of(model, shard)
        # Sparse ones would be of another shape, and traced anew, with every batch.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients], finite

    # All replicas apply or none. These are two functions, because workers that talk to each other
    # in a branch of tf.cond wait for each other for ever.
    def gradients_of(batch):
        losses, shards, finite = strategy.run(on_replica, args=(batch,))
        loss, finite = (strategy.reduce("SUM", each, axis=None) for each in (losses, finite))
        return loss, shards, tf.equal(finite, strategy.num_replicas_in_sync)

    @functools.partial(tf.function, **options)
    def apply(shards):
        strategy.run(functools.partial(tensorflow_step.apply, model), args=(shards,))

    @functools.partial(tf.function, **options)
    def squares_of(shards):
        totals = [strategy.reduce("SUM", shard, axis=None) for shard in shards]
        return tensorflow_step.squares_of(model, totals)

    @functools.cache
    def compiled(features: tuple[str, ...]) -> Callable:
        return for_all_shapes(gradients_of, features, model.jit_compile)

    def run(batch: dict, observed: bool) -> tuple[float, bool, Any]:
        function = gradients_of if model.run_eagerly else compiled(tuple(batch))
        loss, shards, applied = function(batch)
        squares = squares_of(shards) if applied and observed else None
        if applied:
            apply(shards)
        return float(loss), bool(applied), squares

    return run


def _under_jax(model: GuardedModel, devices: Devices, ahead: CompilePool | None) -> Compiled:
    """Compiled once for each shape of a batch; several devices hold the whole state each."""
    import jax

    from t2t_repro.models import jax_step

    variables, strategy = jax_step.variables(model), devices.strategy
    options: dict[str, Any] = {}
    if strategy is not None:
        mesh = strategy.device_mesh.backend_mesh
        whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        options["out_shardings"] = (whole,) * 4
    step = functools.partial(jax_step.step, model)
    compiled = jax.jit(step, donate_argnums=0, **options)

    def layout(shape: tuple[int, ...]):
        return strategy and strategy.get_data_layout(shape).backend_layout

    def described(array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=strategy and array.sharding)

    def state_now() -> tuple:
        return tuple([variable.value for variable in group] for group in variables)

    if ahead:
        # The arrays themselves will be gone when a thread comes to trace.
        state_of, observing = jax.tree.map(described, state_now()), jax.ShapeDtypeStruct((), bool)

        def lower(shape: FeatureShapes):
            batch = {
                name: jax.ShapeDtypeStruct(size, "int32", sharding=layout(size))
                for name, size in shape.items()
            }
            return compiled.lower(state_of, batch, observing)

        ahead.begin(lower)

    def run(batch: dict, observed: bool) -> tuple[float, bool, Any]:
        program = (ahead and ahead.program(batch)) or compiled
        batch = {name: jax.device_put(ids, layout(ids.shape)) for name, ids in batch.items()}
        state, loss, applied, squares = program(state_now(), batch, jax.device_put(observed))
        for group, values in zip(variables, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        loss, applied = jax.device_get((loss, applied))  # the two at once
        return float(loss), bool(applied), squares

    return run


def was_compiling(model: keras.Model) -> bool:
    """Returns whether a step that has failed was not executed yet, as far as that can be known.

    JAX takes the variables' arrays for its results when it executes.
    """
    if keras.backend.backend() != "jax":
        return False
    return not any(variable.value.is_deleted() for variable in model.variables)


def shapes(batch: Mapping[str, Any]) -> str:
    """Returns such as "inputs 31 x 128, targets 31 x 120"."""
    sizes = {side: np.shape(value) for side, value in batch.items()}
    return ", ".join(f"{side} {rows} x {length}" for side, (rows, length) in sizes.items())


def naming_the_batch(
    what: str, batch: Mapping[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Turns a lack of memory into a UserError that names the batch and the flags to lower.

    Args:
        what: what is done with it, such as "a step".
        batch: that batch.
    """
    return process.explain_out_of_memory(
        lambda: f"{what} on a batch of {shapes(batch)} (sentences x tokens)",
        "Lower --hparams=batch_size=TOKENS, or max_length=TOKENS if only the longest sentences are "
        "too much, in another --output_dir; t2t-trainer --find_batch_size finds one "
        "that fits.",
    )
