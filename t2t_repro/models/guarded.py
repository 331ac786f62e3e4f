"""The training step, with a guard: what is not finite is never applied.

`Model.fit` and `train_on_batch` make it by `train_step`, t2t-trainer by training/distribution.py,
of the same functions, those of tensorflow_step.py and jax_step.py.
"""

import keras
from keras import ops


class GuardedModel(keras.Model):
    """A model whose step leaves out an update whose loss or gradients are not finite.

    Of the whole state only the seeds go on then, so that the next step is the same whenever the run
    is repeated. Under float16 Keras's loss scaling leaves out steps whose scaled gradients
    overflow, and halves the scale; they are no fault until it is 0.
    """

    def train_loss(self, batch):
        """Returns the loss of a training step on {"inputs", "targets"} of int32 (B, length)."""
        return self.compute_loss(x=batch, y_pred=self(batch, training=True), training=True)

    def train_step(self, *arguments):
        """Makes one step, as Keras calls it: of the data, under JAX of the state and the data.

        Returns:
            {"loss": that of the batch before the update, averaged as Keras does}; under JAX with
            the state after it.
        """
        *state, data = arguments
        batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        if not state:
            from t2t_repro.models import tensorflow_step

            loss, replicas = tensorflow_step.fit(self, batch)
            return self._logs(loss * replicas, batch)
        from t2t_repro.models import jax_step

        *before, metrics = state[0]
        after, loss, _, _ = jax_step.step(self, tuple(before), batch, False)
        mapping = list(zip(self.metrics_variables, metrics, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            logs = self._logs(loss, batch)
        metrics = [scope.get_current_value(variable) for variable in self.metrics_variables]
        return logs, (*after, metrics)

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        # Keras averages the loss over calls; T2T logs this batch's, before the update.
        self.reset_metrics()
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def _logs(self, loss, batch) -> dict:
        rows = ops.shape(batch["targets"])[0]
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=rows)
        return {metric.name: metric.result() for metric in self.metrics}
