"""The end of a `fit` that meets a loss or gradients that are not finite."""

import math

import keras
import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.training.distribution import WHAT_TO_DO


class StopOnNonFinite(keras.callbacks.Callback):
    """Ends the training with an error at an update whose loss or gradients are not finite.

    The model has skipped it already, and stands as before it. TerminateOnNaN does not see
    gradients, and ends in silence.

    Args:
        max_nonfinite_steps: let so many pass, as t2t-trainer.
    """

    def __init__(self, max_nonfinite_steps: int = 0):
        super().__init__()
        self._most = max_nonfinite_steps
        self._skipped = self._batch = self._epoch = 0
        self._step: int | None = None

    def on_train_begin(self, logs=None):
        self._step, self._skipped = None, 0

    def on_train_batch_begin(self, batch, logs=None):
        if self._step is None:  # not before, for ExactResume may set it behind this one
            self._step = self._made()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._batch = epoch, 0

    def on_train_batch_end(self, batch, logs=None):
        batches, self._batch = batch + 1 - self._batch, batch + 1
        if not logs:  # ExactResume passes over what has been trained on
            self._step = self._made()
            return
        before, self._step = self._step or 0, self._made()
        skipped = self._fault(logs, batches, self._step - before)
        self._skipped += skipped
        if skipped and self._skipped > self._most:
            raise UserError(
                "Expected a finite loss and gradients. Received: others at step "
                f"{self._step + 1}, batch {batch + 1} of epoch {self._epoch + 1}; the update was "
                f"skipped. {WHAT_TO_DO}; max_nonfinite_steps={self._skipped} lets it pass."
            )

    def _made(self) -> int:
        """Returns how many batches the optimizer has taken, which may gather several to an update.

        `iterations` counts the updates.
        """
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
        return int(np.asarray(optimizer._iterations))

    def _fault(self, logs: dict, batches: int, made: int) -> int:
        """Returns how many of so many batches were skipped, of which so many updates were made."""
        if not self.model.trainable_weights:
            return 0  # none makes an update
        optimizer = self.model.optimizer
        if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            return batches - made
        # Which skips a step to halve its scale: no fault until that is 0.
        loss, scale = float(logs["loss"]), float(np.asarray(optimizer.dynamic_scale))
        return (batches - made) * (not math.isfinite(loss) or scale == 0.0)
