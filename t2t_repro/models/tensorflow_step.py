"""The training step under TensorFlow, of the parts that one device and several put together."""

import warnings

import keras
import tensorflow as tf

from t2t_repro.models import clipping


def gradients_of(model, batch):
    """Returns the loss, the gradients and whether all is finite (int32), for one device's batch."""
    loss, _, gradients, finite = _differentiated(model, batch)
    return loss, gradients, finite


def _differentiated(model, batch, sample_weight=None):
    """Returns `model.loss_and_logits` and what `gradients_of` does, of the same pass."""
    optimizer = model.optimizer
    with tf.GradientTape() as tape:
        loss, logits = model.loss_and_logits(batch, sample_weight)
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, [variable.value for variable in model.trainable_weights])
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        checked = [loss, 1.0 / optimizer.dynamic_scale.value]  # a scale of 0: no step can be made
    elif clipping.by_global_norm(optimizer):
        # The norm by which is clipped may have no end where no gradient is without.
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
    model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))


def squares_of(model, gradients):
    """Returns float32 (variables,), the square of each gradient's norm without the loss's scale."""
    scale = model.optimizer.scale_loss(1.0)
    dense = (tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients)
    return tf.stack([tf.reduce_sum(tf.square(gradient / scale)) for gradient in dense])


def step(model, batch, observed):
    """Makes a step on one device.

    Args:
        model: built and compiled; so is its optimizer.
        batch: {"inputs", "targets"} of int32 (B, length).
        observed: bool (), whether the norms are wanted.

    Returns:
        The loss, whether the step was applied, and `squares_of` or zeros.
    """
    loss, gradients, finite = gradients_of(model, batch)
    nothing = tf.zeros([len(gradients)])
    squares = tf.cond(observed, lambda: squares_of(model, gradients), lambda: nothing)
    tf.cond(finite > 0, lambda: apply(model, gradients), lambda: None)
    return loss, finite > 0, squares


def fit(model, batch, sample_weight=None, observer=None):
    """Makes the step of `Model.fit`, of one replica; returns `model.loss_and_logits` before it.

    All replicas apply or none. An observer is told the gradients' norms, of one replica alone.
    Where nothing is trainable there is the loss alone and a warning, as of any model of Keras.
    """
    if not model.built:
        model.build()
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    if not model.trainable_weights:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return model.loss_and_logits(batch, sample_weight)
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    loss, logits, gradients, finite = _differentiated(model, batch, sample_weight)
    if replicas == 1 and observer is not None:
        due, nothing = observer.is_due(model.optimizer.iterations), tf.zeros([len(gradients)])
        squares = tf.cond(due, lambda: squares_of(model, gradients), lambda: nothing)
        observer.metric.update_state(squares, due)
    if not tf.distribute.has_strategy():
        tf.cond(finite > 0, lambda: apply(model, gradients), lambda: None)
        return loss, logits
    finite = context.all_reduce(tf.distribute.ReduceOp.SUM, finite)

    def of_all(strategy, gradients, finite):
        # Replicas that talk to each other in a branch must be asked to from outside of them; one
        # alone does so, too, where a strategy has it.
        def apply_all():
            strategy.extended.call_for_each_replica(apply, args=(model, gradients))

        decided = strategy.experimental_local_results(finite)[0]
        tf.cond(tf.equal(decided, replicas), apply_all, lambda: None)

    context.merge_call(of_all, args=(gradients, finite))
    return loss, logits
