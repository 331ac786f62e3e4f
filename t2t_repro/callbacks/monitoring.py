"""Monitors `fit`: BLEU, best checkpoints, non-finite steps, summaries, samples."""

import math
import os

import keras
import numpy as np

from t2t_repro.decoding.dev_bleu import DevBleu, Sample
from t2t_repro.errors import UserError
from t2t_repro.models.finite_step import FiniteStepModel
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.best import KeepBest
from t2t_repro.training.distribution import WHAT_TO_DO
from t2t_repro.training.log import TRAIN, EventWriter, norms
from t2t_repro.training.state import DECODED_BLEU
from t2t_repro.views import samples

_VALIDATED = "val_"  # how Keras marks in the logs what `validation_data` gave


class EveryEpochs(keras.callbacks.Callback):
    """Does something with sentences every few epochs, and after the last."""

    def __init__(self, sentences: Sample, every: int):
        super().__init__()
        self._sentences, self._every = sentences, every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self._every == 0 or epoch + 1 == self.params["epochs"]:
            self._do({} if logs is None else logs)


class Bleu(EveryEpochs):
    """Adds `val_bleu` to the logs of an epoch: sacreBLEU of greedy translations, in percent.

    Later callbacks in the list see it: ModelCheckpoint("best.keras", monitor="val_bleu",
    mode="max", save_best_only=True). Its signature is printed at the start.

    Args:
        sentences: a `TextSample` or a `DevSample`.
        every: decode every this many epochs, and after the last.

    Attributes:
        signature: sacreBLEU's.
    """

    def __init__(self, sentences: Sample, every: int = 1):
        super().__init__(sentences, every)
        self.signature = sentences.signature

    def on_train_begin(self, logs=None):
        bleu = DevBleu(self.model, self._sentences)
        print(f"{_VALIDATED}{DECODED_BLEU}: sacreBLEU of {bleu.sample} ({bleu.signature})")

    def _do(self, logs: dict) -> None:
        logs[f"{_VALIDATED}{DECODED_BLEU}"] = DevBleu(self.model, self._sentences).score()


class Samples(EveryEpochs):
    """Writes translations of a few sentences and one's attention for TensorBoard.

    Args:
        log_dir: gets the events, in its folder `samples`.
        sentences: a `TextSample` or a `DevSample`, of which the first are taken.
        every: every this many epochs, and after the last.
    """

    def __init__(self, log_dir: str | os.PathLike, sentences: Sample, every: int = 1):
        super().__init__(sentences, every)
        self._writer = EventWriter(log_dir)

    def _do(self, logs: dict) -> None:
        of = self._sentences
        first = of.sources[: samples.COUNT], of.references[: samples.COUNT]
        write = samples.of_sentences(self.model, of.encoders, *first)
        write(_step(self.model), self._writer)

    def on_train_end(self, logs=None):
        self._writer.close()


class BestCheckpoints(keras.callbacks.Callback):
    """Keeps the weights of the epochs whose validation was best, as t2t-trainer --keep_best.

    `checkpoints.load_weights(model, folder / "best")` of t2t_repro.training takes the first of
    them. Unlike ModelCheckpoint's they stay the best after a restart.

    They are the weights that were validated, or decoded with where the metric is "bleu". Those are
    moving averages with SwapEMAWeights(swap_on_epoch=True) before `Bleu` and this in the list.

    Args:
        folder: gets `best/checkpoints/ckpt-STEP`, and `ranking.json` there.
        metric: a metric of t2t-trainer, as validation gives it: "loss", "accuracy", or "bleu" with
            `Bleu` before it in the list.
        count: keep this many.
    """

    def __init__(self, folder: str | os.PathLike, metric: str = "loss", count: int = 1):
        super().__init__()
        self._run = RunDirectory(folder)
        self._best = KeepBest(count=count, metric=metric.removeprefix(_VALIDATED))
        self._weights: dict[str, np.ndarray] = {}

    def on_test_batch_begin(self, batch, logs=None):
        # By the end of the epoch SwapEMAWeights may have put the trained weights back.
        if batch == 0 and self._best.metric != DECODED_BLEU:
            self._weights = _weights(self.model)

    def on_epoch_end(self, epoch, logs=None):
        names = [name for name in logs or () if name.startswith(_VALIDATED)]
        values = {name.removeprefix(_VALIDATED): logs[name] for name in names}
        if values and (DECODED_BLEU in values or self._best.metric != DECODED_BLEU):
            weights, self._weights = self._weights or _weights(self.model), {}
            self._best.add(self._run, _step(self.model), values, weights=weights)


class StopOnNonFinite(keras.callbacks.Callback):
    """Ends the training with an error at an update whose loss or gradients are not finite.

    The model has skipped that update. TerminateOnNaN does not see gradients, and ends silently.

    Args:
        max_nonfinite_steps: skip up to this many, as t2t-trainer.
    """

    def __init__(self, max_nonfinite_steps: int = 0):
        super().__init__()
        self._most, self._skipped = max_nonfinite_steps, 0

    def on_train_begin(self, logs=None):
        self._skipped = 0

    def on_train_batch_begin(self, batch, logs=None):
        self._first, self._before = batch, self._made()

    def on_train_batch_end(self, batch, logs=None):
        made = self._made()
        skipped = batch + 1 - self._first - (made - self._before)
        if not skipped or not self.model.trainable_weights or self._is_scaling(logs):
            return
        self._skipped += skipped
        if self._skipped > self._most:
            raise UserError(
                "Expected a finite loss and finite gradients. Received: non-finite values at step "
                f"{made + 1}, batch {batch + 1} of the epoch; the update was skipped. "
                f"{WHAT_TO_DO}; or allow skipped steps: max_nonfinite_steps={self._skipped}."
            )

    def _made(self) -> int:
        """Returns how many batches the optimizer has taken; it may gather several for an update.

        `iterations` counts the updates.
        """
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
        return int(np.asarray(optimizer._iterations))

    def _is_scaling(self, logs: dict) -> bool:
        """Returns whether the loss's scale was too large and is halved: no fault until it is 0."""
        optimizer = self.model.optimizer
        if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            return False
        return math.isfinite(logs["loss"]) and float(np.asarray(optimizer.dynamic_scale)) > 0


class Summaries(keras.callbacks.Callback):
    """Writes the learning rate, the loss and the norms of weights and gradients for TensorBoard.

    The tags are those of t2t-trainer: `learning_rate`, `loss` (here the mean of the epoch so far),
    `weight_norm`, `gradient_norm` (before clipping), the norms by sublayer. Gradients are those of
    a Transformer on one device. The training stays the same.

    Args:
        log_dir: gets the events.
        every: at the steps that are multiples of this.
    """

    def __init__(self, log_dir: str | os.PathLike, every: int = 100):
        super().__init__()
        self._writer, self._every = EventWriter(log_dir), every
        self._squares: keras.metrics.Metric | None = None

    def set_model(self, model):
        super().set_model(model)
        strategy = getattr(model, "distribute_strategy", None)
        alone = strategy is None or strategy.num_replicas_in_sync == 1
        if isinstance(model, FiniteStepModel) and alone:
            self._squares = model.observe_gradients(self._every)

    def on_train_begin(self, logs=None):
        self._written, self._wait, self._each = _step(self.model), 0, self.model.steps_per_execution

    def on_train_batch_end(self, batch, logs=None):
        # To ask for the model costs time under JAX: only where one may be due.
        self._wait -= self._each
        if self._wait > 0:
            return
        step = _step(self.model)
        due = step // self._every * self._every
        self._wait = due + self._every - step
        if due > self._written:
            self._written = due
            squares = None if self._squares is None else np.asarray(self._squares.squares)
            values, parts = norms(self.model, squares)
            values["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))
            self._writer.scalars(TRAIN, due, {"loss": float(logs["loss"])} | values | parts)

    def on_train_end(self, logs=None):
        if self._squares is not None:
            self.model.observe_gradients(None)
        self._writer.close()


def _step(model: keras.Model) -> int:
    return int(np.asarray(model.optimizer.iterations))


def _weights(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns copies, which the next step does not change."""
    return {name: np.array(each) for name, each in checkpoints.weights(model).items()}
