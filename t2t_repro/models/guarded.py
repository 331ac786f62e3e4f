"""The training step, with a guard: what is not finite is never applied.

`Model.fit` and `train_on_batch` make it by `train_step`, t2t-trainer by training/distribution.py,
of the same functions, those of tensorflow_step.py and jax_step.py.
"""

import contextlib
import functools
import inspect
from typing import Any

import keras
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.layers.replicas import replicas, sum_over_replicas
from t2t_repro.models import keras_compile, keras_data
from t2t_repro.models.kept_state import kept
from t2t_repro.models.keras_data import as_batch, check_arrays, prepared, token_weights
from t2t_repro.models.observer import Observer


class GuardedModel(keras.Model):
    """A model of logits, whose step leaves out an update whose loss or gradients are not finite.

    Of the whole state only the seeds go on then, so that the next step is the same whenever the run
    is repeated. Under float16 Keras's loss scaling leaves out steps whose scaled gradients
    overflow, and halves the scale; they are no fault until it is 0.

    Data are {"inputs", "targets"} or (inputs, targets), as `keras_data.as_batch` takes them, and
    sample_weight is that of sentences or of targets. Padding counts nothing. The loss and the
    metrics of an epoch are means over its real targets, however they lay in batches.
    """

    _observer: Observer | None = None

    def observe_gradients(self, every: int | None) -> keras.metrics.Metric | None:
        """Lets `fit` note the gradients' norms at the steps that are multiples of `every`.

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
        """Returns {name: value} of the metrics, but for the observed gradients' norm."""
        results = super().get_metrics_result()
        if self._observer:
            del results[self._observer.metric.name]
        return results

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
    ):
        """Configures training; arguments as Keras's.

        Args:
            loss: of labels (B, T) and logits (B, T, V); None: the model's own.
            jit_compile: "auto" means XLA under JAX alone: TensorFlow would compile each shape of a
                batch anew.

        Raises:
            UserError: if a loss or metric takes the logits for probabilities, or the weights are
                not float32, in which they are trained.
        """
        if self.dtype_policy.variable_dtype != "float32":
            raise UserError(
                "Expected weights of float32 to train, as with the policies float32, "
                "mixed_bfloat16 and mixed_float16. Received: the policy "
                f"{self.dtype_policy.name}, which serves to decode. Give another dtype."
            )
        keras_compile.check_loss(loss, loss_weights)
        keras_compile.check_metrics(metrics=metrics, weighted_metrics=weighted_metrics)
        self.supports_jit = keras.backend.backend() != "tensorflow" or jit_compile is True
        self._compile_loss = self._compile_metrics = None  # Keras would keep those of before
        super().compile(
            optimizer,
            loss,
            loss_weights,
            metrics,
            weighted_metrics,
            run_eagerly,
            steps_per_execution,
            jit_compile,
            auto_scale_loss,
        )
        # Keras builds these of the first batch, in whose form x and y need not be the model's.
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
        self._check_arrays(given.get("x"), given.get("y"), given.get("sample_weight"))
        self._build_first(training=True)
        given = prepared(keras_data.with_targets_apart(given))
        for name in ("x", "validation_data"):
            if name in given:
                given[name] = keras_data.checked(given[name], self.vocab_sizes)
        with kept(self):
            return super().fit(**given)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *arguments, **keywords):
        bound = inspect.signature(keras.Model.evaluate).bind(self, *arguments, **keywords)
        given = bound.arguments
        self._check_arrays(given.get("x"), given.get("y"), given.get("sample_weight"))
        self._build_first(training=False)
        if "x" in given:
            given["x"] = keras_data.checked(given["x"], self.vocab_sizes)
        given.update(keras_data.with_targets_apart(given))
        with kept(self):
            return super().evaluate(*bound.args[1:], **bound.kwargs)

    @functools.wraps(keras.Model.predict)
    def predict(self, *arguments, **keywords):
        given = inspect.signature(keras.Model.predict).bind(self, *arguments, **keywords).arguments
        del given["self"]
        self._check_arrays(given["x"])
        self._build_first(training=False)
        given["x"] = keras_data.checked(given["x"], self.vocab_sizes)
        callbacks = keras_data.callbacks_in(given.get("callbacks"))
        given["callbacks"] = [*callbacks, keras_data.OneLength()]
        with kept(self):
            return super().predict(**given)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        _refuse_class_weight(class_weight)
        self._check_arrays(x, y, sample_weight)
        self._build_first(training=True)
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        self._check_arrays(x, y, sample_weight)
        self._build_first(training=False)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    def _check_arrays(self, x, y=None, sample_weight=None):
        check_arrays(x, y, sample_weight, self.vocab_sizes)

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """{"inputs", "targets"}: the ids of each are below; {}: not known."""
        return {}

    def train_loss(self, batch, sample_weight=None):
        """Returns the loss of a training step.

        Args:
            batch: {"inputs", "targets"} of int32 (B, length).
            sample_weight: float32 (B, T) or None.
        """
        logits = self(batch, training=True)
        return self._loss_of(batch, logits, sample_weight, training=True)

    def loss_and_logits(self, batch, sample_weight=None):
        """Returns `train_loss`, and the logits that metrics are to see; None if there are none."""
        default = GuardedModel.compute_metrics
        if self._compile_metrics is None and type(self).compute_metrics is default:
            return self.train_loss(batch, sample_weight), None
        logits = self(batch, training=True)
        return self._loss_of(batch, logits, sample_weight, training=True), logits

    def train_step(self, *arguments):
        """Makes one step, as Keras calls it: of the data, under JAX of the state and the data.

        Returns:
            {"loss": that of the batches before their updates, ...}; under JAX with the state.
        """
        *state, data = arguments
        batch, weights = _unpacked(data)
        if not state:
            from t2t_repro.models import tensorflow_step

            loss, logits = tensorflow_step.fit(self, batch, weights, observer=self._observer)
            return self._logs(batch, loss, logits, weights)
        from t2t_repro.models import jax_step

        *before, metrics = state[0]
        after, loss, logits, observed = jax_step.fit(
            self, tuple(before), batch, weights, observer=self._observer
        )
        with jax_step.holding(self.metrics_variables, metrics) as now:
            if self._observer:
                self._observer.metric.update_state(*observed)
            logs = self._logs(batch, loss, logits, weights)
        metrics = [now.get_current_value(variable) for variable in self.metrics_variables]
        return logs, (*after, metrics)

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
        """Counts the batch in and returns all metrics; y_pred may be None where there are none."""
        if self._compile_metrics is not None:
            real = ops.cast(y != 0, "float32")
            # Keras takes the mean over a row first, so that a token of a long one would count less.
            of_tokens = _Weighted()([y_pred, real * ops.cast(ops.shape(y)[1], "float32")])
            self._compile_metrics.update_state(y, of_tokens, sample_weight)
        return self.get_metrics_result()

    def _build_first(self, training: bool) -> None:
        # Callbacks of `fit` want the variables before its first batch: ExactResume restores them,
        # Summaries counts them. Under JAX Keras would call the model for its shapes, on x alone.
        if self.built or not training and keras.backend.backend() == "tensorflow":
            return
        strategy = getattr(self, "distribute_strategy", None)  # of TensorFlow's models alone
        with strategy.scope() if strategy else contextlib.nullcontext():
            self.build()

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras adds up the devices' parts of the first batch, which need not have as many rows.
        if not self.built:
            super()._maybe_symbolic_build(iterator, data_batch)
        elif self._distribute_strategy is not None and not self.optimizer.built:
            with self._distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def _evaluated(self, batch, weights) -> dict:
        logits = self(batch, training=False)
        loss = self._loss_of(batch, logits, weights, training=False)
        return self._logs(batch, loss, logits, weights)

    def _loss_of(self, batch, logits, weights, training: bool):
        given = {} if weights is None else {"sample_weight": weights}
        return self.compute_loss(
            x=batch, y=batch["targets"], y_pred=logits, training=training, **given
        )

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


def _unpacked(data) -> tuple[dict, Any]:
    """Returns the batch and float32 (B, T) or None, the weights of its targets."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    batch = as_batch(x, y)
    return batch, token_weights(sample_weight, batch["targets"])


def _refuse_class_weight(class_weight: Any) -> None:
    if class_weight is not None:
        raise UserError(
            "Expected no class_weight: Keras makes one weight of a whole row of targets. Received: "
            f"{class_weight!r}. Give sample_weight, float32 (B, T), a weight of each target."
        )
