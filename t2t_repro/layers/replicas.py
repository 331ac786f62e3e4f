"""Sums over the replicas of a distributed step; with one replica they are the values themselves."""

import keras


def sum_over_replicas(value):
    """Returns the sum of a scalar over all replicas of the step that is running.

    The one place below the programs that asks which backend runs: under TensorFlow's strategies
    each replica computes on its own shard, under JAX's the arrays are global already.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)
