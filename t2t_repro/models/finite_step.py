"""The training step: an update that is not finite is skipped.

`Model.fit` and `train_on_batch` call `train_step`, t2t-trainer calls training/distribution.py. Both
use the functions of tensorflow_step.py and jax_step.py.
"""

import contextlib
import functools
import inspect
from typing import Any

import keras
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.layers.replicas import replicas, sum_over_replicas


class Observer:
    """Records the norms of a step's gradients, before they are clipped, every few steps.

    The callbacks of `fit` see neither gradients nor batches.

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
        """Returns whether the step after `iterations` steps is observed, as a tensor."""
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


class FiniteStepModel(keras.Model):
    """A model of logits, whose step skips an update whose loss or gradients are not finite.

    A skipped step changes only the seeds, so that a repeated run makes the same next step. Under
    float16 Keras's loss scaling skips steps whose scaled gradients overflow, and halves the scale;
    that is no fault until the scale is 0.

    Data are {"inputs", "targets"} or (inputs, targets), as `as_batch` takes them, and sample_weight
    is that of sentences or of targets. Padding counts nothing. The loss and the metrics of an epoch
    are means over its real targets, whatever the batches.
    """

    _observer: Observer | None = None

    def observe_gradients(self, every: int | None) -> keras.metrics.Metric | None:
        """Lets `fit` record the gradients' norms at the steps that are multiples of `every`.

        Args:
            every: see above; None: at none.

        Returns:
            What holds them: its `squares` are the squared norms, float32 (trainable variables,).
        """
        self._observer = Observer(self, every) if every else None
        self.train_function = None
        return self._observer and self._observer.metric

    @property
    def metrics(self):
        """Keras's metrics, and what holds the norms of observed gradients."""
        return [*super().metrics, *([self._observer.metric] if self._observer else [])]

    def get_metrics_result(self):
        """Returns {name: value} of the metrics, except the observed gradients' norms."""
        results = super().get_metrics_result()
        if self._observer:
            del results[self._observer.metric.name]
        return results

    @functools.wraps(keras.Model.compile)
    def compile(self, *arguments, **keywords):
        bound = inspect.signature(keras.Model.compile).bind(self, *arguments, **keywords)
        # "auto" means XLA under JAX alone: TensorFlow would compile each shape of a batch anew.
        xla = bound.arguments.get("jit_compile") is True
        self.supports_jit = keras.backend.backend() != "tensorflow" or xla
        self._compile_loss = self._compile_metrics = None  # Keras would keep those of before
        super().compile(*arguments, **keywords)
        # Keras builds these from the first batch, whose x and y may have another form than the
        # model's.
        labels, logits = keras.KerasTensor((None,) * 2, "int32"), keras.KerasTensor((None,) * 3)
        for part in (self._compile_loss, self._compile_metrics):
            if part is not None:
                part.build(labels, logits)

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @functools.wraps(keras.Model.fit)
    def fit(self, *arguments, **keywords):
        given = inspect.signature(keras.Model.fit).bind(self, *arguments, **keywords).arguments
        del given["self"]
        _refuse_class_weight(given.get("class_weight"))
        weights = given.get("sample_weight")
        given["x"], given["y"] = _targets_apart(given.get("x"), given.get("y"), weights)
        validation = given.get("validation_data")
        if isinstance(validation, tuple | list) and len(validation) == 3:
            given["validation_data"] = (*_targets_apart(*validation), validation[2])
        for callback in callbacks_in(given.get("callbacks")):
            if hasattr(callback, "prepare"):  # ExactResume
                given = callback.prepare(**given)
        return super().fit(**given)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        *others,
        **named,
    ):
        x, y = _targets_apart(x, y, sample_weight)
        return super().evaluate(x, y, batch_size, verbose, sample_weight, *others, **named)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        _refuse_class_weight(class_weight)
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    def loss_of(self, batch, sample_weight=None, training=True):
        """Returns the loss of a batch, and the logits; a model may keep these where none see them.

        Args:
            batch: {"inputs", "targets"} of int32 (B, length).
            sample_weight: float32 (B, T) or None.
            training: whether in training.
        """
        logits = self(batch, training=training)
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        loss = self.compute_loss(
            x=batch, y=batch["targets"], y_pred=logits, training=training, **given
        )
        return loss, logits

    def train_step(self, *arguments):
        """Makes one step, as Keras calls it: of the data, under JAX of the state and the data.

        Returns:
            {"loss": that of the batches before their updates, ...}; under JAX with the state.
        """
        *state, data = arguments
        batch, weights = _unpacked(data)
        if not state:
            return self._tensorflow_step(batch, weights)
        from t2t_repro.models import jax_step

        *before, metrics = state[0]
        due = None
        if self._observer:
            with jax_step.holding(self.optimizer.variables, before[2]):
                due = self._observer.is_due(self.optimizer.iterations.value)
        after, loss, _, squares, logits = jax_step.train_step(self, before, batch, weights, due)
        with jax_step.holding(self.metrics_variables, metrics) as now:
            if self._observer:
                self._observer.metric.update_state(squares, due)
            logs = self._logs(batch, loss, logits, weights)
        metrics = [now.get_current_value(variable) for variable in self.metrics_variables]
        return logs, (*after, metrics)

    def _tensorflow_step(self, batch, weights) -> dict:
        from t2t_repro.models import tensorflow_step

        observer = self._observer if replicas() == 1 else None
        due = observer and observer.is_due(self.optimizer.iterations)
        loss, _, squares, logits = tensorflow_step.train_step(self, batch, weights, due)
        if observer:
            observer.metric.update_state(squares, due)
        return self._logs(batch, loss, logits, weights)

    def test_step(self, *arguments):
        """Evaluates one batch, as Keras calls it; see `train_step`."""
        *state, data = arguments
        batch, weights = _unpacked(data)
        if not state:
            return self._evaluated(batch, weights)
        from t2t_repro.models import jax_step

        trainable, *groups = state[0]
        variables = self.non_trainable_variables, self.metrics_variables
        held = [*self.trainable_variables, *variables[0], *variables[1]]
        with jax_step.holding(held, [*trainable, *groups[0], *groups[1]]) as now:
            logs = self._evaluated(batch, weights)
        after = ([now.get_current_value(variable) for variable in group] for group in variables)
        return logs, (trainable, *after)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates and returns all metrics; y_pred may be None where there are none."""
        if self._compile_metrics is not None:
            real = ops.cast(y != 0, "float32")
            # Keras takes the mean over a row first, so that a token of a long row would count less.
            of_tokens = _Weighted()([y_pred, real * ops.cast(ops.shape(y)[1], "float32")])
            self._compile_metrics.update_state(y, of_tokens, sample_weight)
        return self.get_metrics_result()

    def _symbolic_build(self, iterator=None, data_batch=None):
        # Keras would call the model on the first batch: on x alone under JAX, on the mean of the
        # devices' parts under a strategy. Callbacks need the variables before it.
        strategy = getattr(self, "distribute_strategy", None)  # of TensorFlow's models alone
        with strategy.scope() if strategy else contextlib.nullcontext():
            if not self.built:
                self.build()
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)

    _maybe_symbolic_build = _symbolic_build

    def _evaluated(self, batch, weights) -> dict:
        loss, logits = self.loss_of(batch, weights, training=False)
        return self._logs(batch, loss, logits, weights)

    def _logs(self, batch, loss, logits, weights) -> dict:
        # The replicas' losses add up to that of all, and so do their metrics' sums.
        tokens = sum_over_replicas(ops.sum(ops.cast(batch["targets"] != 0, "float32")))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss * replicas(), sample_weight=tokens / replicas())
        return self.compute_metrics(batch, batch["targets"], logits, weights)


class _Weighted(keras.layers.Layer):
    """Gives [logits, weights (B, T)] as the logits with the weights as their Keras mask."""

    def __init__(self):
        super().__init__(name="weighted", dtype="float32")
        self.supports_masking = True

    def call(self, inputs):
        return ops.copy(inputs[0])  # another tensor, which has no mask

    def compute_mask(self, inputs, previous_mask=None):
        return inputs[1]


def as_batch(x: Any, y: Any = None) -> dict:
    """Returns {"inputs", "targets"}, and what else `x` has if it is a dict.

    Args:
        x: the inputs; or both, as a dict or a pair.
        y: the targets, if `x` is without. The model itself shifts them for its decoder.
    """
    if y is not None:
        return {**(x if isinstance(x, dict) else {"inputs": x}), "targets": y}
    if isinstance(x, tuple | list):
        return dict(zip(("inputs", "targets"), x, strict=True))
    return x


def callbacks_in(given: Any) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of `fit` and the like: of a list, a CallbackList, one or None."""
    return keras.tree.flatten(getattr(given, "callbacks", given) or ())


def _targets_apart(x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Returns x and y, the targets of weighted arrays as y: Keras ignores weights without it."""
    if sample_weight is None or y is not None:
        return x, y
    batch = dict(as_batch(x))
    return batch, batch.pop("targets")


def _unpacked(data) -> tuple[dict, Any]:
    """Returns the batch and float32 (B, T) or None, the weights of its targets."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    batch = as_batch(x, y)
    if sample_weight is None:
        return batch, None
    shape, weights = ops.shape(batch["targets"]), ops.cast(sample_weight, "float32")
    # TensorFlow may know the rank of neither when it traces: (B,) or (B, 1) weigh sentences.
    return batch, ops.broadcast_to(ops.reshape(weights, (shape[0], -1)), shape)


def _refuse_class_weight(class_weight: Any) -> None:
    if class_weight is not None:
        raise UserError(
            "Expected no class_weight: Keras would weight whole sentences with it. Received: "
            f"{class_weight!r}. Give sample_weight, float32 (B, T), a weight for each target token."
        )
