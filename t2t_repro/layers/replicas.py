"""Sums over the replicas of a distributed step; with one replica they are the values themselves."""

import keras


def sum_over_replicas(value):
    """Returns the sum of a scalar over all replicas of the step that is running.

    Under TensorFlow's strategies each replica computes on its own shard, under JAX's the arrays are
    global already.
    """
    if replicas() == 1:
        return value
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


def replicas() -> int:
    """Returns how many replicas take part in the step that is running."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync
