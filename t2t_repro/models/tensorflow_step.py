"""The training step under TensorFlow: that of `Model.fit`, and of t2t-trainer on one device.

On several devices training/distribution.py builds the trainer's step from the parts here.
"""

import keras
import tensorflow as tf

from t2t_repro.models import clipping


def train_step(model, batch, sample_weight=None, observed=None):
    """Makes a step.

    In the scope of a strategy it is one replica's: all replicas apply their updates or none.

    Args:
        model: built and compiled; so is its optimizer.
        batch: {"inputs", "targets"} of int32 (B, length).
        sample_weight: float32 (B, T), or None.
        observed: bool (), whether the norms are wanted; None: they never are.

    Returns:
        The loss, whether the step was applied, float32 (variables,): the square of each gradient's
        norm without the loss's scale, or zeros, and the logits as `model.loss_of` gives them.
    """
    loss, logits, gradients, finite = differentiate(model, batch, sample_weight)
    squares = nothing = tf.zeros([len(gradients)])
    if observed is not None:
        squares = tf.cond(observed, lambda: squares_of(model, gradients), lambda: nothing)
    if not tf.distribute.has_strategy():
        tf.cond(finite > 0, lambda: apply(model, gradients), lambda: None)
        return loss, finite > 0, squares, logits
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    finite = context.all_reduce(tf.distribute.ReduceOp.SUM, finite)

    def of_all(strategy, gradients, finite):
        # Replicas that communicate in a branch must be called by merge_call; a single one too, if
        # it has a strategy.
        def apply_all():
            strategy.extended.call_for_each_replica(apply, args=(model, gradients))

        decided = strategy.experimental_local_results(finite)[0]
        tf.cond(tf.equal(decided, replicas), apply_all, lambda: None)

    context.merge_call(of_all, args=(gradients, finite))
    return loss, tf.equal(finite, replicas), squares, logits


def differentiate(model, batch, sample_weight=None):
    """Returns `model.loss_of`, the gradients and whether all is finite (int32) on one device."""
    optimizer = model.optimizer
    with tf.GradientTape() as tape:
        loss, logits = model.loss_of(batch, sample_weight)
        scaled = optimizer.scale_loss(loss)
    variables = model.trainable_weights
    gradients = tape.gradient(scaled, [variable.value for variable in variables])
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        checked = [loss, 1.0 / optimizer.dynamic_scale.value]  # a scale of 0: no step can be made
    elif clipping.by_global_norm(optimizer):
        # The norm of the clipping may be infinite although no gradient is.
        parts = [getattr(gradient, "values", gradient) for gradient in gradients]
        checked = [loss, tf.add_n([tf.nn.l2_loss(part) for part in parts])]
    else:
        checked = [loss, *(getattr(gradient, "values", gradient) for gradient in gradients)]
    # A sum is finite only if every part is, and needs one pass without a copy.
    finite = tf.reduce_all(tf.math.is_finite([tf.reduce_sum(part) for part in checked]))
    return loss, logits, gradients, tf.cast(finite, tf.int32)


def apply(model, gradients) -> None:
    """Lets the optimizer update the weights."""
    gradients = tf.nest.map_structure(tf.identity, gradients)  # into the graph of a branch
    if gradients:  # all may be frozen
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


def squares_of(model, gradients):
    """Returns float32 (variables,), the square of each gradient's norm without the loss's scale."""
    scale = model.optimizer.scale_loss(1.0)
    dense = (tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients)
    return tf.stack([tf.reduce_sum(tf.square(gradient / scale)) for gradient in dense])
