"""Which devices a run trains on, and the compiled step that runs on all of them.

The training step does what Keras's `train_step` does (forward, the model's loss, gradients, the
optimizer), but for this: a loss that is not finite stops it before the optimizer. Here it becomes
one function of a batch, traced once for all batch shapes.
"""

import contextlib
import math
from collections.abc import Callable, Iterator

import keras
import numpy as np

from t2t_repro.errors import UserError

_NOT_FINITE = "The loss of this step is not finite"


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


def step_function(model: keras.Model, strategy=None) -> Callable[[dict], float]:
    """Returns a function that trains `model` on one batch of `batches` and returns its loss.

    The loss is that of this batch before the update. Where it is not finite there is no update; but
    under the JAX backend, and where XLA compiles, which has no assertions, there is one.

    Args:
        model: built and compiled.
        strategy: what `strategy` returned.
    """
    if keras.backend.backend() != "tensorflow":
        return lambda batch: float(model.train_on_batch(batch, return_dict=True)["loss"])
    import tensorflow as tf

    if not model.optimizer.built:  # variables made while tracing would cost a second trace
        with scope(strategy):
            model.optimizer.build(model.trainable_variables)

    def replica_step(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = model.compute_loss(x=batch, y_pred=logits, training=True)
            scaled = model.optimizer.scale_loss(loss)
        weights = [variable.value for variable in model.trainable_weights]
        gradients = tape.gradient(scaled, weights)
        # The optimizer waits for the check, the gradients do not: a device need not idle for it.
        check = [] if model.jit_compile else [tf.debugging.check_numerics(loss, _NOT_FINITE)]
        with tf.control_dependencies(check):
            model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    def step(batch):
        if strategy is None:
            return replica_step(batch)
        shares = strategy.run(replica_step, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    # One trace for all the buckets' shapes; without a signature there would be three or four.
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = [{"inputs": ids, "targets": ids}] if strategy is None else None
    options = {"reduce_retracing": True, "jit_compile": model.jit_compile or None}
    compiled = tf.function(step, input_signature=signature, **options)

    def run(batch) -> float:
        try:
            return float(compiled(batch))
        except tf.errors.InvalidArgumentError as error:
            if _NOT_FINITE not in error.message:
                raise
            return math.nan if "NaN" in error.message else math.inf

    return run


def count_tokens(batch: dict) -> int:
    """Returns the number of real target tokens of a batch of `batches`."""
    targets = batch["targets"]
    return sum(int(np.count_nonzero(part)) for part in getattr(targets, "values", (targets,)))
