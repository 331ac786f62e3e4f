"""What TensorBoard shows of a `fit` as of a run of t2t-trainer: rates, norms, samples."""

import os

import keras
import numpy as np

from t2t_repro.decoding.dev_bleu import Sample
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.training.log import TRAIN, EventWriter, norms
from t2t_repro.views import samples


class Summaries(keras.callbacks.Callback):
    """Writes the learning rate, the loss and the norms of weights and gradients for TensorBoard.

    The tags are those of t2t-trainer: `learning_rate`, `loss` (here the mean of the epoch so far),
    `weight_norm`, `gradient_norm` (before clipping), the norms by sublayer. Gradients are those of
    a Transformer on one device. Nothing changes what is trained.

    Args:
        log_dir: gets the events.
        every: at the steps that are multiples of this.
    """

    def __init__(self, log_dir: str | os.PathLike, every: int = 100):
        super().__init__()
        self._writer, self._every = EventWriter(log_dir), every
        self._squares: keras.metrics.Metric | None = None
        self._written = self._wait = 0

    def set_model(self, model):
        super().set_model(model)
        strategy = getattr(model, "distribute_strategy", None)
        alone = strategy is None or strategy.num_replicas_in_sync == 1
        if isinstance(model, GuardedModel) and alone:
            self._squares = model.observe_gradients(self._every)

    def on_train_begin(self, logs=None):
        self._written = self._step()
        self._wait = 0

    def on_train_batch_end(self, batch, logs=None):
        # To ask the model for its step costs time under JAX: only where one may be due.
        self._wait -= self.model.steps_per_execution
        if self._wait > 0:
            return
        step = self._step()
        due = step // self._every * self._every
        self._wait = due + self._every - step
        if due > self._written and logs:
            self._written = due
            self._write(due, float(logs["loss"]))

    def on_train_end(self, logs=None):
        if self._squares is not None:
            self.model.observe_gradients(None)
        self._writer.close()

    def _step(self) -> int:
        return int(np.asarray(self.model.optimizer.iterations))

    def _write(self, step: int, loss: float) -> None:
        squares = self._squares
        gradients = None if squares is None else np.asarray(squares.squares)
        values, parts = norms(self.model, gradients)
        values["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))
        self._writer.scalars(TRAIN, step, {"loss": loss} | values | parts)


class Samples(keras.callbacks.Callback):
    """Writes what the model makes of a few sentences for TensorBoard, and one's attention.

    Args:
        log_dir: gets the events, in its folder `samples`.
        sentences: a `TextSample` or a `DevSample`: the first of it are taken.
        every: after every this many epochs; the last is always one.
    """

    def __init__(self, log_dir: str | os.PathLike, sentences: Sample, every: int = 1):
        super().__init__()
        self._sentences, self._every = sentences, every
        self._writer = EventWriter(log_dir)

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self._every and epoch + 1 < self.params["epochs"]:
            return
        model, sentences = self.model, self._sentences
        sources, references = sentences.sources, sentences.references
        first = sources[: samples.COUNT], references[: samples.COUNT]
        write = samples.of_sentences(model, sentences.encoders, *first)
        write(int(np.asarray(model.optimizer.iterations)), self._writer)

    def on_train_end(self, logs=None):
        self._writer.close()
