"""What the optimizers of `optimizers.py` share."""

from typing import Any

import keras
from keras import ops


class Optimizer(keras.optimizers.Optimizer):
    """What all of T2T's optimizers share: the L2 term and clipping by the global norm.

    With Keras's use_ema they keep the exponential moving average of the weights (Polyak and
    Juditsky 1992). Its decay begins low, so that the first weights do not weigh in a short run: at
    update n it is at most (1 + n) / (10 + n), as that of TensorFlow 1's ExponentialMovingAverage.
    `training/moving_average.py` is about its use.

    Args:
        learning_rate: a schedule or a float.
        l2: the loss to descend has l2 / 2 * sum(v * v) over all variables but biases added; the
            reported loss does not (T2T `weight_decay_and_noise`). A bias is a vector named "bias".
        clip_norm: gradients, L2 term included, are scaled down to this global norm; 0 is off.
    """

    accumulate_steps = 1  # batches that make an update

    def __init__(self, learning_rate, l2: float = 0.0, clip_norm: float = 0.0, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.l2 = l2
        self.clip_norm = clip_norm

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"l2": self.l2, "clip_norm": self.clip_norm}

    def update_step(self, gradient, variable, learning_rate):
        self._update(gradient, variable, learning_rate)
        if self.use_ema:
            self._update_average(variable)

    def _update_average(self, variable) -> None:
        average = self._model_variables_moving_average[self._get_variable_index(variable)]
        update = self.iterations // self.accumulate_steps
        step = ops.cast(update, "float32")
        decay = ops.minimum(self.ema_momentum, (1.0 + step) / (10.0 + step))
        decay = ops.where(update == 0, 0.0, decay)
        if self.accumulate_steps > 1:  # between two updates the weights are the same
            is_update = (self.iterations + 1) % self.accumulate_steps == 0
            decay = ops.where(is_update, decay, 1.0)
        old, new = ops.convert_to_tensor(average), ops.convert_to_tensor(variable)
        self.assign(average, decay * old + (1.0 - decay) * new)

    def _update_model_variables_moving_average(self, trainable_variables):
        """Does nothing: `update_step` has done it, which every strategy lets assign."""

    def apply(self, grads, trainable_variables=None):
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        trainable_variables = list(trainable_variables)
        pairs = zip(grads, trainable_variables, strict=True)
        return super().apply([_dense(*pair) for pair in pairs], trainable_variables)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if keras.config.backend() != "tensorflow":
            grads = self._decay_and_clip(grads, trainable_variables)
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Under TensorFlow the gradients of a replica are only its part of the whole until here.
        grads, variables = zip(*super()._all_reduce_sum_gradients(grads_and_vars), strict=True)
        return list(zip(self._decay_and_clip(grads, variables), variables, strict=True))

    def _decay_and_clip(self, grads, variables):
        if self.l2:
            grads = [
                grad
                if self._is_bias(variable)
                else grad + self.l2 * ops.convert_to_tensor(variable)
                for grad, variable in zip(grads, variables, strict=True)
            ]
        if self.clip_norm:
            norm = ops.sqrt(sum(ops.sum(ops.square(grad)) for grad in grads))
            scale = self.clip_norm * ops.minimum(1.0 / norm, 1.0 / self.clip_norm)
            scale = scale + (norm - norm)  # not a number unless the norm is finite
            grads = [grad * scale for grad in grads]
        return grads

    def _is_bias(self, variable) -> bool:
        variable = self._trainable_variables[self._get_variable_index(variable)]
        # As T2T's utils/optimize.py, by its names, in which that of batch normalization is `beta`.
        named = variable.name == "bias" and "/batch_norm/" not in variable.path
        return named and len(variable.shape) == 1


def _dense(gradient, variable):
    """Returns the gradient as one tensor, as in T2T, where an embedding's may be sparse.

    Keras squares the rows of a sparse gradient before it adds up those of a repeated token, which
    makes the second moment of Adam and the norm too small.
    """
    if not hasattr(gradient, "indices"):
        return gradient
    return ops.segment_sum(gradient.values, gradient.indices, variable.shape[0])
