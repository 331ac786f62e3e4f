"""The optimizers of T2T's hparam sets, as Keras optimizers that give T2T's numbers.

Source: T2T utils/optimize.py, utils/multistep_optimizer.py, utils/adafactor.py. In T2T the steps of
an update come in this order: sum the gradients of all replicas, add the L2 term, clip by the global
norm, accumulate, update. `iterations` counts batches, as T2T's global step.
"""

import inspect
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_repro.config import HParams, snake_case
from t2t_repro.layers import kernels
from t2t_repro.layers.layer import FusedVariable
from t2t_repro.training import learning_rate as learning_rates
from t2t_repro.training.trainable import gathered


def from_hparams(hparams: HParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer that `hparams.optimizer` names, with its schedule, decay and clipping.

    T2T's "adam" is LazyAdam, but its gradients are dense by then, so that it is "true_adam".

    T2T: `optimize` and the registered optimizers of utils/optimize.py.

    Raises:
        UserError: if the optimizer or its learning-rate schedule is unknown or not defined.
    """
    rate = learning_rates.Schedule(hparams)  # refuses unknown names
    kind = KINDS[snake_case(hparams.optimizer)]
    # An argument has the name of its hparam: beta1 is optimizer_adam_beta1.
    prefix = f"optimizer_{kind.make.__name__.lower()}_"
    names = inspect.signature(kind.make).parameters
    known = [name for name in names if hasattr(hparams, prefix + name)]
    own: dict[str, Any] = {name: getattr(hparams, prefix + name) for name in known}
    if kind.make is Adam:
        own["accumulate_steps"] = gathered(hparams)
        own["decoupled_decay"] = hparams.weight_decay * (kind.t2t_slots == "AdamW")
    return kind.make(
        learning_rate=rate,
        l2=hparams.weight_decay,
        clip_norm=hparams.clip_grad_norm,
        use_ema=hparams.ema_decay > 0,
        ema_momentum=hparams.ema_decay,
        **own,
    )


class Optimizer(keras.optimizers.Optimizer):
    """What all of T2T's optimizers share: the L2 term and clipping by the global norm.

    With Keras's use_ema they keep the exponential moving average of the weights (Polyak and
    Juditsky 1992). Its decay begins low, so that the first weights do not count in a short run: at
    update n it is at most (1 + n) / (10 + n), as that of TensorFlow 1's ExponentialMovingAverage.
    `training/checkpoints.py` uses it.

    Args:
        learning_rate: a schedule or a float.
        l2: the loss to descend has l2 / 2 * sum(v * v) over all variables but biases added; the
            reported loss does not (T2T `weight_decay_and_noise`). A bias is a vector named "bias".
        clip_norm: gradients, L2 term included, are scaled down to this global norm; 0 is off.
    """

    accumulate_steps = 1  # batches that make an update

    def __init__(self, learning_rate, l2: float = 0.0, clip_norm: float = 0.0, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.l2, self.clip_norm = l2, clip_norm

    def get_config(self) -> dict[str, Any]:
        classes = type(self).__mro__[: type(self).__mro__.index(Optimizer) + 1]
        makers: list[Any] = [each.__init__ for each in classes]  # type: ignore[misc]
        names = [name for maker in makers for name in inspect.signature(maker).parameters]
        others = ("self", "learning_rate", "kwargs")
        own = {name: getattr(self, name) for name in names if name not in others}
        return super().get_config() | own

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
        """Does nothing: `update_step` has done it, where every strategy allows assignments."""

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
        # Under TensorFlow a replica's gradients are only its part of the sum until here.
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
        # As T2T's utils/optimize.py, by its names; batch normalization's bias is `beta` there.
        named = variable.name == "bias" and "/batch_norm/" not in variable.path
        return named and len(variable.shape) == 1


@keras.saving.register_keras_serializable("t2t_repro")
class Adam(Optimizer):
    """Adam as TensorFlow 1 computes it, with T2T's gradient accumulation.

    T2T: `adam`, `true_adam`, `adam_w` of utils/optimize.py and `MultistepAdamOptimizer`.

    Args:
        learning_rate, l2, clip_norm: see `Optimizer`.
        beta1, beta2: decay rates of the first and second moment.
        epsilon: added to the root of the second moment, before its bias is corrected.
        accumulate_steps: one update is made of the mean gradient of this many batches, each clipped
            by itself. Keras's own accumulation fails under MirroredStrategy and clips the mean.
        decoupled_decay: before an update every variable shrinks by this share, whatever the
            learning rate (AdamW as `tf.contrib.opt.AdamWOptimizer`, which T2T uses).
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        accumulate_steps: int = 1,
        decoupled_decay: float = 0.0,
        **kwargs,
    ):
        super().__init__(learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.accumulate_steps, self.decoupled_decay = accumulate_steps, decoupled_decay

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        slots = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self._momentums, self._velocities = slots
        if self.accumulate_steps > 1:
            self._sums = self.add_optimizer_variables(variables, "gradient_sum")

    def _update(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        slots = [variable, self._momentums[index], self._velocities[index]]
        in_one_pass = not self.decoupled_decay and not kernels.PLAIN
        if in_one_pass and keras.config.backend() == "tensorflow":
            if self.accumulate_steps == 1:
                self._update_in_one_pass(gradient, learning_rate, *slots)
            else:
                self._add_up(gradient, self._sums[index], learning_rate, *slots)
            return
        old = [ops.convert_to_tensor(slot) for slot in slots]
        if self.accumulate_steps == 1:
            new = self._updated(gradient, learning_rate, *old)
        else:
            slots.append(self._sums[index])
            total = gradient + ops.convert_to_tensor(self._sums[index])
            new = ops.cond(
                (self.iterations + 1) % self.accumulate_steps == 0,
                lambda: [
                    *self._updated(total / self.accumulate_steps, learning_rate, *old),
                    ops.zeros_like(total),
                ],
                lambda: [*old, total],
            )
        for slot, value in zip(slots, new, strict=True):
            self.assign(slot, value)

    def _add_up(self, gradient, total, learning_rate, variable, momentum, velocity) -> None:
        """Adds up gradients; every `accumulate_steps` batches assigns `_updated` of their mean."""
        import tensorflow as tf

        tf.raw_ops.AssignAddVariableOp(resource=total.value.handle, value=gradient)

        def update():
            gathered = tf.raw_ops.ReadVariableOp(resource=total.value.handle, dtype=gradient.dtype)
            mean = gathered / self.accumulate_steps
            self._update_in_one_pass(mean, learning_rate, variable, momentum, velocity)
            nothing = tf.zeros_like(gathered)
            tf.raw_ops.AssignVariableOp(resource=total.value.handle, value=nothing)

        tf.cond((self.iterations + 1) % self.accumulate_steps == 0, update, lambda: None)

    def _update_in_one_pass(self, gradient, learning_rate, variable, momentum, velocity) -> None:
        """Assigns `_updated`'s values by the kernel of T2T's own optimizer."""
        import tensorflow as tf

        power1, power2 = self._beta_powers()
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            beta1_power=power1,
            beta2_power=power2,
            lr=learning_rate,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def _beta_powers(self):
        """Returns beta1 and beta2 to the power of the number of updates, this one included."""
        update = ops.cast(self.iterations // self.accumulate_steps + 1, "float32")
        return tuple(ops.power(ops.cast(b, "float32"), update) for b in (self.beta1, self.beta2))

    def _updated(self, gradient, learning_rate, value, momentum, velocity) -> list:
        """Returns the variable's next value, first and second moment."""
        power1, power2 = self._beta_powers()
        step_size = learning_rate * ops.sqrt(1.0 - power2) / (1.0 - power1)
        momentum = momentum + (gradient - momentum) * (1.0 - self.beta1)
        velocity = velocity + (ops.square(gradient) - velocity) * (1.0 - self.beta2)
        if self.decoupled_decay:
            value = value - self.decoupled_decay * value
        value = value - step_size * momentum / (ops.sqrt(velocity) + self.epsilon)
        return [value, momentum, velocity]


@keras.saving.register_keras_serializable("t2t_repro")
class Adafactor(Optimizer):
    """Adafactor (https://arxiv.org/abs/1804.04235) as T2T's utils/adafactor.py.

    A FusedVariable counts as one variable for each of its sizes: T2T keeps the query, key and value
    kernels and the shards of an embedding separate, each with its own scale, clipping and factors.

    Args:
        learning_rate, l2, clip_norm: see `Optimizer`.
        beta1: decay rate of the mean of updates; 0 keeps none, and needs no memory for it.
        beta2: decay rate of the second moment where decay_type is "adam".
        clipping_threshold: an update's root mean square is clipped to this; 0 is off.
        decay_type: "pow", the second moment's memory grows as steps**memory_exponent; or "adam".
        factored: keep row and column means of a matrix's second moment, not the matrix.
        memory_exponent: see decay_type.
        multiply_by_parameter_scale: the step is relative to the variable's root mean square.
    """

    def __init__(
        self,
        learning_rate=0.01,
        beta1: float = 0.0,
        beta2: float = 0.999,
        clipping_threshold: float = 1.0,
        decay_type: str = "pow",
        factored: bool = True,
        memory_exponent: float = 0.8,
        multiply_by_parameter_scale: bool = True,
        **kwargs,
    ):
        super().__init__(learning_rate, **kwargs)
        self.beta1, self.beta2, self.clipping_threshold = beta1, beta2, clipping_threshold
        self.decay_type, self.factored, self.memory_exponent = decay_type, factored, memory_exponent
        self.multiply_by_parameter_scale = multiply_by_parameter_scale

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._second_moments = [
            [self._add_second_moment(variable, shape) for shape in _part_shapes(variable)]
            for variable in variables
        ]
        if self.beta1:
            self._momentums = self.add_optimizer_variables(variables, "momentum")

    def _add_second_moment(self, variable, shape) -> list:
        """Returns the slots of one part: means over columns and over rows, or one of full shape."""
        if self.factored and len(shape) >= 2:
            kinds = {"row_mean": shape[:-1], "column_mean": shape[:-2] + shape[-1:]}
        else:
            kinds = {"velocity": shape}
        path = variable.path.replace("/", "_")
        return [self.add_variable(s, name=f"{path}_{kind}") for kind, s in kinds.items()]

    def _update(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        own = self._trainable_variables[index]
        axis, cuts = (own.axis, own.cuts) if isinstance(own, FusedVariable) else (0, [])
        value = ops.convert_to_tensor(variable)
        parts = zip(
            ops.split(gradient, cuts, axis) if cuts else [gradient],
            ops.split(value, cuts, axis) if cuts else [value],
            self._second_moments[index],
            strict=True,
        )
        updates = [self._part_update(*part, learning_rate) for part in parts]
        update = ops.concatenate(updates, axis) if cuts else updates[0]
        if self.beta1:
            momentum = self._momentums[index]
            update = self.beta1 * ops.convert_to_tensor(momentum) + (1.0 - self.beta1) * update
            self.assign(momentum, update)
        self.assign(variable, value - update)

    def _part_update(self, gradient, value, slots, learning_rate):
        """Returns what to subtract from `value`, and updates its second moment."""
        decay = self._decay_rate()
        squared = ops.square(gradient) + 1e-30
        means = [squared] if len(slots) == 1 else [ops.mean(squared, -1), ops.mean(squared, -2)]
        for i, slot in enumerate(slots):
            means[i] = decay * ops.convert_to_tensor(slot) + (1.0 - decay) * means[i]
            self.assign(slot, means[i])
        if len(slots) == 1:
            update = gradient * ops.rsqrt(means[0])
        else:
            rows, columns = means
            rows = ops.rsqrt(rows / ops.mean(rows, -1, keepdims=True))
            update = gradient * ops.expand_dims(rows, -1)
            update = update * ops.expand_dims(ops.rsqrt(columns), -2)
        if self.clipping_threshold:
            update = update / ops.maximum(1.0, _rms(update) / self.clipping_threshold)
        if self.multiply_by_parameter_scale:
            learning_rate = learning_rate * ops.maximum(_rms(value), 1e-3)
        return learning_rate * update

    def _decay_rate(self):
        """T2T `adafactor_decay_rate_pow` and `adafactor_decay_rate_adam`."""
        count = ops.cast(self.iterations + 1, "float32")
        if self.decay_type == "pow":
            return 1.0 - ops.power(count, -self.memory_exponent)
        beta2 = ops.cast(self.beta2, "float32")
        return beta2 * (1.0 - ops.power(beta2, count - 1.0)) / (1.0 - ops.power(beta2, count))


def _part_shapes(variable) -> list[tuple[int, ...]]:
    """Returns the shape of each part of `variable`; of the whole when it has none."""
    shape = tuple(variable.shape)
    if not isinstance(variable, FusedVariable):
        return [shape]
    axis = variable.axis
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in variable.sizes]


def _rms(x):
    return ops.sqrt(ops.mean(ops.square(x)))


def _dense(gradient, variable):
    """Returns the gradient as one tensor, as in T2T, where an embedding's may be sparse.

    Keras squares the rows of a sparse gradient before it sums those of a repeated token, so that
    Adam's second moment and the norm become too small.
    """
    if not hasattr(gradient, "indices"):
        return gradient
    return ops.segment_sum(gradient.values, gradient.indices, variable.shape[0])


class Kind(NamedTuple):
    """An entry for an optimizer of config.py's OPTIMIZERS.

    make: its class.
    t2t_slots: the names of its slots in T2T's checkpoints; None: T2T has no such optimizer.
    """

    make: type[Optimizer]
    t2t_slots: str | None = None


KINDS = {
    "adam": Kind(Adam, "Adam"),
    "true_adam": Kind(Adam, "Adam"),
    "multistep_adam": Kind(Adam, "Adam"),
    "adam_w": Kind(Adam, "AdamW"),
    "adafactor": Kind(Adafactor, "Adafactor"),
}
