"""The training step of the model, compiled, on all the devices of a run, and its batches."""

import functools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import keras
import numpy as np

from t2t_repro import process
from t2t_repro.models.finite_step import FiniteStepModel
from t2t_repro.training.devices import ONE, Devices

FeatureShapes = Mapping[str, tuple[int, int]]  # {feature: (rows, length)}
Say = Callable[[str], None]
_LOOK = 0.2  # seconds from one look for a signal to the next


def for_all_shapes(
    function: Callable, features: tuple[str, ...], jit_compile: bool, *more: Any
) -> Callable:
    """Returns a function of {feature: int32 (B, length)}, compiled by TensorFlow in one trace.

    Args:
        function: takes the batch, and the values of `more`, a tf.TensorSpec each.
        features: the names.
        jit_compile: whether by XLA.
        more: see `function`.
    """
    import tensorflow as tf

    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    options = {"autograph": False, "jit_compile": jit_compile or None}
    return tf.function(function, input_signature=[signature, *more], **options)


WHAT_TO_DO = "Lower the learning rate, raise learning_rate_warmup_steps, or set clip_grad_norm"


class Made(NamedTuple):
    """The result of a step.

    Attributes:
        loss: that of the batch before the update.
        finite: whether it and the gradients are; if not there was no update.
        squares: float32 (trainable variables,), the squared norm of each gradient before it is
            clipped; meaningless if not requested.
    """

    loss: float
    finite: bool
    squares: Any

    def fault(self) -> str:
        """Returns in words what is not finite."""
        return "non-finite gradients" if math.isfinite(self.loss) else f"loss {self.loss}"


TrainStep = Callable[..., Made]  # of a batch, and whether the norms are wanted
Step = Callable[[dict, bool], tuple[Any, Any, Any]]  # the same as a backend computes it


def step_function(
    model: FiniteStepModel, devices: Devices = ONE, ahead: "CompilePool | None" = None
) -> TrainStep:
    """Returns a function that trains `model` on one batch.

    It is the step of models/tensorflow_step.py or jax_step.py, as in `Model.fit`. The batch is that
    of a worker, {"inputs", "targets"} of int32 (B, length). Its devices take consecutive shards of
    it; under JAX they must divide its rows. A second argument, `observed`, asks for the norms of
    the step's gradients. They cost a pass over the gradients, and change nothing. All workers ask
    or none.

    Args:
        model: built and compiled; with run_eagerly, as Keras has it, TensorFlow traces nothing.
        devices: what `devices.choose` returned.
        ahead: compiles the programs of these shapes ahead, under JAX.
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

    def train_step(batch: dict, observed: bool = False) -> Made:
        loss, finite, squares = step(batch, observed)
        return Made(float(loss), bool(finite), squares)  # waits for the step

    return train_step


def _on_one_device(model: FiniteStepModel) -> Step:
    import tensorflow as tf

    from t2t_repro.models import tensorflow_step

    def step(batch, observed):
        return tensorflow_step.train_step(model, batch, observed=observed)[:3]

    @functools.cache
    def compiled(features: tuple[str, ...]) -> Callable:
        # One trace for all the buckets' shapes; without a signature there would be three or four.
        observed = tf.TensorSpec([], tf.bool)
        return for_all_shapes(step, features, model.jit_compile, observed)

    def step_on_one_device(batch: dict, observed: bool) -> tuple:
        function = step if model.run_eagerly else compiled(tuple(batch))
        return function(batch, tf.constant(observed))

    return step_on_one_device


def _on_replicas(model: FiniteStepModel, devices: Devices) -> Step:
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
        loss, _, gradients, finite = tensorflow_step.differentiate(model, shard)
        # Sparse ones would have another shape, and be traced again, with every batch.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients], finite

    # All replicas apply or none. These are two functions, because workers that communicate in a
    # branch of tf.cond deadlock.
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

    def step_on_replicas(batch: dict, observed: bool) -> tuple:
        function = gradients_of if model.run_eagerly else compiled(tuple(batch))
        loss, shards, finite = function(batch)
        squares = squares_of(shards) if finite and observed else None
        if finite:
            apply(shards)
        return loss, finite, squares

    return step_on_replicas


def _under_jax(model: FiniteStepModel, devices: Devices, ahead: "CompilePool | None") -> Step:
    """Returns the step under JAX, compiled for each shape; each device holds the whole state."""
    import jax

    from t2t_repro.models import jax_step

    variables, strategy = jax_step.variables(model), devices.strategy
    options: dict[str, Any] = {}
    if strategy is not None:
        mesh = strategy.device_mesh.backend_mesh
        whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        options["out_shardings"] = (whole,) * 4

    def step(state, batch, observed):
        return jax_step.train_step(model, state, batch, observed=observed)[:4]

    compiled = jax.jit(step, donate_argnums=0, **options)

    def layout(shape: tuple[int, ...]):
        return strategy and strategy.get_data_layout(shape).backend_layout

    def described(array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=strategy and array.sharding)

    def state_now() -> tuple:
        return tuple([variable.value for variable in group] for group in variables)

    if ahead:
        # The arrays may be gone when a thread traces.
        state_of, observing = jax.tree.map(described, state_now()), jax.ShapeDtypeStruct((), bool)

        def lower(shape: FeatureShapes):
            batch = {
                name: jax.ShapeDtypeStruct(size, "int32", sharding=layout(size))
                for name, size in shape.items()
            }
            return compiled.lower(state_of, batch, observing)

        ahead.begin(lower)

    def step_under_jax(batch: dict, observed: bool) -> tuple:
        program = (ahead and ahead.program(batch)) or compiled
        batch = {name: jax.device_put(ids, layout(ids.shape)) for name, ids in batch.items()}
        state, loss, finite, squares = program(state_now(), batch, jax.device_put(observed))
        for group, values in zip(variables, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        loss, finite = jax.device_get((loss, finite))  # the two at once
        return loss, finite, squares

    return step_under_jax


class CompilePool:
    """Compiles a JAX step for each shape of a batch, in threads; `close` waits for them.

    For a GPU that takes long: XLA tries many programs for each product, and a run has as many
    shapes as buckets. So threads compile them, the most frequent shapes first, while batches of
    finished programs are trained on.

    Args:
        shapes: what to compile, in this order.
        at_once: how many threads.
        say: prints a line.
    """

    def __init__(self, shapes: Sequence[FeatureShapes] = (), at_once: int = 1, say: Say = print):
        self._shapes, self._at_once, self._say = shapes, at_once, say
        self._programs: dict[tuple, Future[Callable]] = {}
        self._pool = ThreadPoolExecutor(at_once)
        self._tracing = threading.Lock()  # Keras layers are not made to be traced side by side
        self._lower: Callable[[FeatureShapes], Any]  # that of `begin`

    def close(self) -> None:
        """Waits for running compilations, and begins no more."""
        self._pool.shutdown(cancel_futures=True)

    def begin(self, lower: Callable[[FeatureShapes], Any]) -> None:
        """Begins to compile what `lower` returns for each shape, a jax.stages.Lowered."""
        self._lower = lower
        for shape in self._shapes:
            self._programs[_key(shape)] = self._pool.submit(self._compiled, shape)
        if self._shapes:
            self._say(
                f"XLA compiles the training step for {len(self._shapes)} batch shapes, "
                f"{self._at_once} at a time."
            )

    def program(self, batch: Mapping[str, Any]) -> Callable | None:
        """Returns the program for a batch, once it is compiled; None: it is not among the shapes.

        Raises:
            CancelledError: on a signal, while it waits.
        """
        shape = {name: ids.shape for name, ids in batch.items()}
        future = self._programs.get(_key(shape))
        if future is None:
            return None
        if future.cancel():  # no thread has come to it: what is needed is not to wait for others
            future = self._made_here(shape)
        while not future.done():
            if process.received_signal():
                raise CancelledError
            time.sleep(_LOOK)
        if future.exception():  # such as for want of the memory that the others took meanwhile
            future = self._made_here(shape)
        return future.result()

    def _made_here(self, shape: FeatureShapes) -> Future[Callable]:
        future: Future[Callable] = Future()
        future.set_result(self._compiled(shape))
        self._programs[_key(shape)] = future
        return future

    def _compiled(self, shape: FeatureShapes) -> Callable:
        with self._tracing:
            lowered = self._lower(shape)
        return lowered.compile()


def compile_ahead(dataset: Any, devices: Devices, steps: int, say: Say) -> CompilePool:
    """Returns the pool of shapes worth compiling ahead: on GPUs under JAX, those of `steps`.

    Args:
        dataset: of `pipeline.make_dataset`; shapes of others are compiled on demand.
        devices: what trains.
        steps: how many batches are to come.
        say: see `CompilePool`.
    """
    shares = getattr(dataset, "shares", ())
    needed = [shape for share, shape in shares if share * steps >= 1]
    if devices.kind != "GPU" or len(needed) < 2:
        return CompilePool()
    return CompilePool(needed, min(len(needed), max(1, process.available_cores() // 2)), say)


def _key(shape: FeatureShapes) -> tuple:
    return tuple(sorted((name, tuple(size)) for name, size in shape.items()))


def was_compiling(model: keras.Model) -> bool:
    """Returns whether a failed step was probably still compiling.

    JAX takes the variables' arrays for its results when it executes.
    """
    if keras.backend.backend() != "jax":
        return False
    return not any(variable.value.is_deleted() for variable in model.variables)


def shapes(batch: Mapping[str, Any]) -> str:
    """Returns the shapes in words, such as "inputs 31 x 128, targets 31 x 120"."""
    sizes = {side: np.shape(value) for side, value in batch.items()}
    return ", ".join(f"{side} {rows} x {length}" for side, (rows, length) in sizes.items())
