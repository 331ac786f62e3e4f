"""What is found at the end of an epoch of `fit`: the BLEU of what is decoded, the best so far."""

import os
from typing import Any

import keras
import numpy as np

from t2t_repro.decoding.dev_bleu import DevBleu, Sample
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.best import KeepBest
from t2t_repro.training.state import DECODED_BLEU

_VALIDATED = "val_"  # how Keras marks in the logs what `validation_data` gave


class Bleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the logs of an epoch: sacreBLEU of greedy translations, in percent.

    Those after it in the list see it: ModelCheckpoint("best.keras", monitor="val_bleu", mode="max",
    save_best_only=True). How it is computed is said at the start.

    Args:
        sentences: a `TextSample` or a `DevSample`.
        every: decode after every this many epochs; the last is always one.

    Attributes:
        signature: sacreBLEU's.
    """

    def __init__(self, sentences: Sample, every: int = 1):
        super().__init__()
        self._sentences, self._every = sentences, every
        self.signature = sentences.signature

    def on_train_begin(self, logs=None):
        bleu = DevBleu(self.model, self._sentences)
        print(f"{_VALIDATED}{DECODED_BLEU} is sacreBLEU of {bleu.sample}: {bleu.signature}")

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self._every and epoch + 1 < self.params["epochs"]:
            return
        score = DevBleu(self.model, self._sentences).score()
        if logs is not None:
            logs[f"{_VALIDATED}{DECODED_BLEU}"] = score


class BestCheckpoints(keras.callbacks.Callback):
    """Keeps the weights of the epochs whose validation was best, as t2t-trainer --keep_best.

    `checkpoints.load_weights(model, folder / "best")` of t2t_repro.training takes the first of
    them. Unlike those of ModelCheckpoint they stay the best when a program is started again.

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

    def on_train_begin(self, logs=None):
        self._weights: dict[str, np.ndarray] = {}

    def on_test_batch_begin(self, batch, logs=None):
        # By the end of the epoch SwapEMAWeights may have put the trained weights back.
        if batch == 0 and self._best.metric != DECODED_BLEU:
            self._weights = _weights(self.model)

    def on_epoch_end(self, epoch, logs=None):
        values: dict[str, Any] = {
            name.removeprefix(_VALIDATED): value
            for name, value in (logs or {}).items()
            if name.startswith(_VALIDATED)
        }
        if not values:
            return
        weights, self._weights = self._weights or _weights(self.model), {}
        step = int(np.asarray(self.model.optimizer.iterations))
        self._best.add(self._run, step, values, weights=weights)


def _weights(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns copies, which the next step leaves."""
    return {name: np.array(each) for name, each in checkpoints.weights(model).items()}
