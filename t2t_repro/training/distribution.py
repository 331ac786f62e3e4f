"""The training step, compiled, on all the devices of a run, and the batches that it takes.

The training step does what Keras's `train_step` does (forward, the model's loss, gradients, the
optimizer), but for this: a loss or gradient that is not finite stops it before the optimizer. Here
it becomes one function of a batch, traced once for all batch shapes.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import numpy as np

from t2t_repro.training.devices import ONE, Devices

Observe = Callable[[np.ndarray], None]


def batches(dataset) -> Iterator:
    """Yields the batches of a tf.data.Dataset; under JAX of any iterable."""
    if keras.backend.backend() != "tensorflow":
        return iter(getattr(dataset, "as_numpy_iterator", dataset.__iter__)())
    return iter(dataset)


def for_all_shapes(function: Callable, features: tuple[str, ...], jit_compile: bool) -> Callable:
    """Returns a function of {feature: int32 (B, length)}, compiled by TensorFlow in one trace."""
    import tensorflow as tf

    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    options = {"autograph": False, "jit_compile": jit_compile or None}
    return tf.function(function, input_signature=[signature], **options)


class NotFinite(Exception):
    """A step whose loss or gradients are not finite; nothing of it was applied."""

    def __init__(self, loss: float):
        self.loss = loss
        super().__init__(f"loss {loss}" if not math.isfinite(loss) else "gradients")


class Step(Protocol):
    """A training step."""

    def __call__(self, batch: dict, observe: Observe | None = None) -> float:
        """Trains on a batch and returns its loss; `observe` receives the gradients' norms."""


def step_function(model: keras.Model, devices: Devices = ONE) -> Step:
    """Returns a function that trains `model` on one batch and returns its loss.

    The batch is that of a worker, {"inputs", "targets"} of int32 (B, length). Its devices take
    consecutive shares of it. Whoever wants the norms of the step's gradients, before they are
    clipped, gives a function as `observe`: it receives the square of each trainable variable's, in
    order, as float32. That costs a pass over the gradients, and changes nothing. Of several workers
    all ask or none.

    The loss is that of this batch before the update. Where it or a gradient is not finite the
    function raises NotFinite, and there was no update: of the whole state only the seeds went on,
    so that the next step is the same whenever the run is repeated. Under float16 Keras's loss
    scaling leaves out steps whose scaled gradients overflow, and halves the scale; they are no
    fault until it is 0.

    Args:
        model: built and compiled; with run_eagerly, as Keras has it, TensorFlow traces nothing.
        devices: what `devices.choose` returned.
    """
    if keras.backend.backend() != "tensorflow":
        from t2t_repro.training import jax_step

        return _raising(jax_step.step_function(model, devices))
    import tensorflow as tf

    optimizer, strategy = model.optimizer, devices.strategy
    if not optimizer.built:  # variables made while tracing would cost a second trace
        with devices.scope():
            optimizer.build(model.trainable_variables)
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)

    def loss_of(batch):
        if hasattr(model, "train_loss") and not model.jit_compile:
            return model.train_loss(batch)
        return model.compute_loss(x=batch, y_pred=model(batch, training=True), training=True)

    def gradients_of(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
            scaled = optimizer.scale_loss(loss)
        weights = [variable.value for variable in model.trainable_weights]
        gradients = tape.gradient(scaled, weights)
        if scales_loss:  # a scale that has fallen to 0 says that no step can be made
            checked = [loss, 1.0 / optimizer.dynamic_scale.value]
        else:
            checked = [loss, *map(_values, gradients)]
        # A sum is finite only if every part is, and needs one pass without a copy.
        finite = tf.reduce_all(tf.math.is_finite([tf.reduce_sum(part) for part in checked]))
        return loss, gradients, tf.cast(finite, tf.int32)

    def apply(gradients):
        gradients = tf.nest.map_structure(tf.identity, gradients)  # into the graph of the branch
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))

    def squares_of(gradients):
        scale = optimizer.scale_loss(1.0)
        dense = (tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients)
        return tf.stack([tf.reduce_sum(tf.square(gradient / scale)) for gradient in dense])

    def on_one_device(batch, observed):
        loss, gradients, finite = gradients_of(batch)
        nothing = tf.zeros([len(gradients)])
        squares = tf.cond(observed, lambda: squares_of(gradients), lambda: nothing)
        tf.cond(finite > 0, lambda: apply(gradients), lambda: None)
        return loss, finite > 0, squares

    def on_replica(batch):
        context = tf.distribute.get_replica_context()
        here = context.replica_id_in_sync_group - devices.first_replica
        rows = tf.shape(batch["targets"])[0]
        start, end = rows * here // devices.local, rows * (here + 1) // devices.local
        loss, gradients, finite = gradients_of({n: ids[start:end] for n, ids in batch.items()})
        # Sparse ones would be of another shape, and traced anew, with every batch.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients], finite

    # All replicas apply or none. This is two functions, because replicas that talk to each other
    # in a branch of tf.cond wait for each other for ever.
    def on_replicas(batch):
        losses, shares, finite = strategy.run(on_replica, args=(batch,))
        loss, finite = (strategy.reduce("SUM", each, axis=None) for each in (losses, finite))
        return loss, shares, tf.equal(finite, strategy.num_replicas_in_sync)

    options = {"jit_compile": model.jit_compile or None, "autograph": False}
    apply_on_replicas = tf.function(lambda shares: strategy.run(apply, args=(shares,)), **options)

    @tf.function(**options)
    def squares_on_replicas(shares):
        return squares_of([strategy.reduce("SUM", share, axis=None) for share in shares])

    @functools.cache
    def compiled(features: tuple[str, ...]):
        # One trace for all the buckets' shapes; without a signature there would be three or four.
        signature: list = [{name: tf.TensorSpec([None, None], tf.int32) for name in features}]
        step: Callable = on_replicas
        if strategy is None:
            step = on_one_device
            signature.append(tf.TensorSpec([], tf.bool))
        if model.run_eagerly:
            return step
        return tf.function(step, input_signature=signature, **options)

    def run(batch, observed: bool) -> tuple[float, bool, Any]:
        step = compiled(tuple(batch))
        if strategy is None:
            loss, applied, squares = step(batch, tf.constant(observed))
        else:
            squares = None
            with devices.naming_the_lost():
                loss, shares, applied = step(batch)
                if applied and observed:
                    squares = squares_on_replicas(shares)
                if applied:
                    apply_on_replicas(shares)
        return float(loss), bool(applied), squares

    return _raising(run)


def _raising(step: Callable[[dict, bool], tuple[float, bool, Any]]) -> Step:
    """Returns a function that returns a step's loss, or raises NotFinite if it was not applied."""

    def run(batch: dict, observe: Observe | None = None) -> float:
        loss, applied, squares = step(batch, observe is not None)
        if not applied:
            raise NotFinite(loss)
        if observe is not None:
            observe(np.asarray(squares))
        return loss

    return run


def _values(gradient):
    return getattr(gradient, "values", gradient)  # a sparse one's


def count_tokens(batch: dict) -> int:
    """Returns the number of real target tokens of a batch."""
    return int(np.count_nonzero(batch["targets"]))
