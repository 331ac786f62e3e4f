"""The norms of the gradients of `Model.fit`: its callbacks see neither gradients nor batches."""

import keras
from keras import ops


class Observer:
    """Notes the norms of a step's gradients, before they are clipped, at every so many steps.

    Args:
        model: built; it is trained on one device.
        every: at the steps that are multiples of this.

    Attributes:
        metric: holds them, so that Keras hands them through its loop under JAX.
    """

    def __init__(self, model: keras.Model, every: int):
        self._every = every
        self.metric = _Squares(len(model.trainable_variables))

    def is_due(self, iterations):
        """Whether the step after so many is observed, as a tensor."""
        return ops.equal((iterations + 1) % self._every, 0)


class _Squares(keras.metrics.Metric):
    """The squared norm of each gradient, float32 (trainable variables,), as last observed."""

    def __init__(self, count: int):
        super().__init__(name="gradient_norm")
        self.squares = self.add_variable((count,), "zeros", name="squares")

    def update_state(self, squares, due):
        self.squares.assign(ops.where(due, squares, self.squares.value))

    def reset_state(self):
        """Keeps them: an epoch has its own mean loss, but no norms of its own."""

    def result(self):
        return ops.sqrt(ops.sum(self.squares))
