"""Which devices a run trains on, and the compiled step that runs on all of them.

The training step does what Keras's `train_step` does (forward, the model's loss, gradients, the
optimizer), but for this: a loss or gradient that is not finite stops it before the optimizer. Here
it becomes one function of a batch, traced once for all batch shapes.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator

import keras
import numpy as np

from t2t_repro.errors import UserError


def strategy(num_replicas: int = 1):
    """Returns TensorFlow's strategy for `num_replicas` devices: GPUs if there are any, else CPUs.

    Raises:
        UserError: if there are fewer devices, or another backend than TensorFlow runs.
    """
    if num_replicas == 1:
        return None
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Expected --worker_gpu=1 under the JAX backend, which spreads over all of its devices "
            f"by itself. Received: {num_replicas}."
        )
    import tensorflow as tf

    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = [device.name for device in tf.config.list_logical_devices(kind)]
    if not 1 <= num_replicas <= len(devices):
        raise UserError(
            f"Expected --worker_gpu between 1 and {len(devices)}, the {kind} devices that "
            f"TensorFlow sees here. Received: {num_replicas}."
        )
    return tf.distribute.MirroredStrategy(devices[:num_replicas])


def scope(strategy):
    """Returns the context in which a model and its optimizer are made for `strategy`."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def batches(dataset, strategy=None) -> Iterator:
    """Yields the batches of a tf.data.Dataset, split over the replicas of `strategy`."""
    if keras.backend.backend() != "tensorflow":
        return dataset.as_numpy_iterator()
    return iter(dataset if strategy is None else strategy.experimental_distribute_dataset(dataset))


class NotFinite(Exception):
    """A step whose loss or gradients are not finite; nothing of it was applied."""

    def __init__(self, loss: float):
        self.loss = loss
        super().__init__(f"loss {loss}" if not math.isfinite(loss) else "gradients")


def step_function(model: keras.Model, strategy=None) -> Callable[[dict], float]:
    """Returns a function that trains `model` on one batch of `batches` and returns its loss.

    The loss is that of this batch before the update. Where it or a gradient is not finite the
    function raises NotFinite, and there was no update: of the whole state only the seeds went on,
    so that the next step is the same whenever the run is repeated. Under float16 Keras's loss
    scaling leaves out steps whose scaled gradients overflow, and lowers the scale; they are no
    fault. Under the JAX backend the update has been made when the loss is found not to be finite.

    Args:
        model: built and compiled.
        strategy: what `strategy` returned.
    """
    if keras.backend.backend() != "tensorflow":
        return lambda batch: _finite(float(model.train_on_batch(batch, return_dict=True)["loss"]))
    import tensorflow as tf

    optimizer = model.optimizer
    if not optimizer.built:  # variables made while tracing would cost a second trace
        with scope(strategy):
            optimizer.build(model.trainable_variables)
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)

    def gradients_of(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = model.compute_loss(x=batch, y_pred=logits, training=True)
            scaled = optimizer.scale_loss(loss)
        weights = [variable.value for variable in model.trainable_weights]
        gradients = tape.gradient(scaled, weights)
        checked = [loss] if scales_loss else [loss, *map(_values, gradients)]
        # A sum is finite only if every part is, and needs one pass without a copy.
        finite = tf.reduce_all(tf.math.is_finite([tf.reduce_sum(part) for part in checked]))
        return loss, gradients, tf.cast(finite, tf.int32)

    def apply(gradients):
        gradients = tf.nest.map_structure(tf.identity, gradients)  # into the graph of the branch
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))

    def step(batch):
        if strategy is None:
            loss, gradients, finite = gradients_of(batch)
            tf.cond(finite > 0, lambda: apply(gradients), lambda: None)
            return loss, finite > 0
        # All replicas apply or none: whether they do is decided between two runs on them.
        losses, shares, finite = strategy.run(gradients_of, args=(batch,))
        finite = strategy.reduce(tf.distribute.ReduceOp.SUM, finite, axis=None)
        applied = tf.equal(finite, strategy.num_replicas_in_sync)
        tf.cond(applied, lambda: strategy.run(apply, args=(shares,)) and None, lambda: None)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), applied

    @functools.cache
    def compiled(features: tuple[str, ...]):
        # One trace for all the buckets' shapes; without a signature there would be three or four.
        ids = tf.TensorSpec([None, None], tf.int32)
        signature = [dict.fromkeys(features, ids)] if strategy is None else None
        options = {"reduce_retracing": True, "jit_compile": model.jit_compile or None}
        return tf.function(step, input_signature=signature, **options)

    def run(batch) -> float:
        loss, applied = compiled(tuple(batch))(batch)
        if not applied:
            raise NotFinite(float(loss))
        return float(loss)

    return run


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise NotFinite(loss)
    return loss


def _values(gradient):
    return getattr(gradient, "values", gradient)  # a sparse one's


def count_tokens(batch: dict) -> int:
    """Returns the number of real target tokens of a batch of `batches`."""
    targets = batch["targets"]
    return sum(int(np.count_nonzero(part)) for part in getattr(targets, "values", (targets,)))
