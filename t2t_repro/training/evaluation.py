"""Teacher-forced evaluation of a model, with tensor2tensor's metrics, and its data."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.models import copies
from t2t_repro.models.copies import DEFAULT_DEVICE
from t2t_repro.problem import Problem
from t2t_repro.run_directory import RunConfig
from t2t_repro.text.encoders import PAD_ID
from t2t_repro.training import devices, distribution, metrics


def evaluation_data(problem: Problem, split: str, config: RunConfig, steps: int = 0):
    """Returns one pass over a split, as `data.pipeline.Batches`; see `make_dataset`.

    Args:
        problem: the problem.
        split: one of its splits.
        config: the hparams and the data_dir.
        steps: at most this many batches, a fair sample of all; 0: all.

    Raises:
        UserError: if the problem has no such split.
    """
    splits = [entry["split"] for entry in problem.dataset_splits]
    if split not in splits:
        raise UserError(
            f"Expected a split of {problem.name}: {', '.join(splits)}. Received: {split!r}. Add "
            "it to dataset_splits, or train without evaluation: t2t-trainer --schedule=train."
        )
    from t2t_repro.data.pipeline import make_dataset

    where = (config.hparams, config.data_dir)
    return make_dataset(problem, split, *where, training=False, most=steps)


class Evaluator:
    """Evaluates one model any number of times; its function is compiled once for each device.

    The devices that have a copy of the model share the batches.

    Args:
        model: {"inputs", "targets"} to logits, as Transformer.
        names: which of `metrics.METRICS`; the loss is always among the results.
    """

    def __init__(self, model: keras.Model, names: Sequence[str]):
        self._names = tuple(names)
        metrics.Accumulator(self._names)  # a wrong name fails now, not after an hour of training
        self._statistics = _Statistics(model)
        self._compiled: dict[tuple[tuple[str, ...], str], Any] = {}  # by features and device

    def evaluate(self, dataset) -> dict[str, float]:
        """Returns {metric: value} over a finite dataset.

        Args:
            dataset: batches of {"inputs": (B, S), "targets": (B, T)}.

        Raises:
            UserError: if there is no batch.
        """

        def statistics_of(batch: dict, device: str) -> tuple[dict, np.ndarray]:
            return self._statistics_of(batch, device), batch["targets"]

        found = metrics.Accumulator(self._names)
        batches, devices = 0, copies.devices_of(self._statistics.model)
        for each in copies.map_over_devices(statistics_of, dataset.as_numpy_iterator(), devices):
            found.update(*each)
            batches += 1
        if not batches:
            raise UserError("Expected at least one batch to evaluate. Received: an empty dataset.")
        return found.result()

    def loss(self, batch: dict) -> float:
        """Returns the loss of one batch per real target token, as `evaluate`'s."""
        labels = np.asarray(batch["targets"])
        losses = np.asarray(self._statistics_of(batch)["cross_entropy"])
        return float(losses[labels != PAD_ID].mean())

    def _statistics_of(self, batch: dict, device: str = DEFAULT_DEVICE) -> dict:
        """Returns `metrics.token_statistics` of a batch as NumPy arrays."""
        if keras.backend.backend() == "tensorflow":
            kind = tuple(batch), device
            if kind not in self._compiled:
                self._compiled[kind] = self._statistics.for_all_shapes(*kind)
            statistics = self._compiled[kind](batch)
            return {name: np.asarray(array) for name, array in statistics.items()}
        # Each shape is compiled: padding to powers of two leaves few; but it would change the
        # numbers of a model that sees padding.
        axes = 1 if self._statistics.model.sees_padding else 2
        grown = {name: _grown(ids, axes) for name, ids in batch.items()}
        spread = copies.shard_batch(self._statistics.model, grown)
        statistics = self._statistics.predict_on_batch(spread)
        rows, length = batch["targets"].shape
        return {name: np.asarray(array)[:rows, :length] for name, array in statistics.items()}


def _grown(ids: np.ndarray, axes: int) -> np.ndarray:
    """Returns ids (B, length) padded with zeros on the first axes, up to powers of two."""
    sizes = (*((1 << (size - 1).bit_length()) for size in ids.shape[:axes]), *ids.shape[axes:])
    return np.pad(ids, [(0, to - size) for to, size in zip(sizes, ids.shape, strict=True)])


class _Statistics(keras.Model):
    """The model and the statistics of its logits, as one compiled prediction.

    The logits, the largest arrays of all, never leave the device.
    """

    def __init__(self, model: keras.Model):
        super().__init__(name="statistics")
        self.model = model
        self.jit_compile = devices.compiles()  # batches of evaluation have too many shapes

    def for_all_shapes(self, features: tuple[str, ...], device: str):
        """Returns the prediction compiled by TensorFlow once for a device, for any shape.

        Keras compiles the first shape separately, with other rounding, and which shape is first
        depends on where a run was resumed.
        """

        def call(batch):
            with copies.device_scope(self.model, device):
                return self.call(batch)

        return distribution.for_all_shapes(call, features, self.jit_compile)

    def call(self, batch, training=False):
        return metrics.token_statistics(self.model(batch, training=False), batch["targets"])
