"""Exact resume of `fit`: killed at any moment and started again, it ends with the same bits."""

import itertools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from t2t_repro.data.pipeline import Batches
from t2t_repro.errors import UserError
from t2t_repro.models.finite_step import callbacks_in
from t2t_repro.progress import on_stderr
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints

FIT = "fit.npz"  # in a checkpoint: what the callbacks beside this one know of the epochs before
_PLACE = "fit"  # in a state's `extra`: the epochs that are done, and whether a callback ended it
# Of EarlyStopping, ReduceLROnPlateau and ModelCheckpoint.
_COUNTERS = (
    *("best", "best_epoch", "wait", "cooldown_counter", "stopped_epoch"),
    *("epochs_since_last_save", "_batches_seen_since_last_saving", "_last_batch_seen"),
)
_BEST = "best_weights"


class ExactResume(keras.callbacks.Callback):
    """Saves after each epoch what `fit` needs to resume, and resumes when the program runs again.

    That is what t2t-trainer saves (weights, optimizer slots, step, random seeds, the position in
    the data), and the counters of the EarlyStopping, ReduceLROnPlateau and ModelCheckpoint beside
    it. A program that was killed and is started again ends with the same weights, bit by bit, if
    its data are the same at each start. If an epoch takes long, give `fit` fewer steps_per_epoch.
    keras.callbacks.BackupAndRestore restores weights and slots, but neither the seeds of dropout
    nor the order of the data.

    `fit` of a Transformer finds its place in the data by itself. `fit` of any other model takes
    `**resume.prepare(x=..., ...)`, all its arguments by name. x is a tf.data.Dataset, which
    repeats, or with steps_per_epoch a generator: earlier batches are read and skipped. Faster is a
    function of the number of batches to skip, which returns endless data: `lambda start:
    t2t_repro.data.dataset(..., start=start)`.

    SwapEMAWeights(swap_on_epoch=True) must follow it in `callbacks`: before it, it would swap the
    averages in before the trained weights are saved, and a longer `fit` would begin with the
    averages.

    Example:

    >>> resume = t2t_repro.callbacks.ExactResume("run")
    >>> model.fit(data, epochs=10, callbacks=[resume])

    Args:
        folder: gets `checkpoints/ckpt-STEP`, which t2t_repro.training.checkpoints reads.
        keep: how many of the newest checkpoints; 0: all.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 2):
        super().__init__()
        self._folder, self._keep = RunDirectory(folder).checkpoints_dir, keep
        self._found: pathlib.Path | None = None  # the checkpoint that waits to be restored
        self._prepared = False

    def prepare(self, **arguments: Any) -> dict[str, Any]:
        """Returns the arguments of `fit`, with the data after the newest checkpoint.

        Args:
            arguments: those of `fit`, by name: x from its start, and all the others.

        Raises:
            UserError: if the position in such data cannot be found again, or all checkpoints are
                damaged.
        """
        self._others = _named(arguments.get("callbacks"))
        self._found = checkpoints.newest_whole(self._folder, on_stderr)
        state = checkpoints.read_state(self._found) if self._found else checkpoints.State(step=0)
        self._batches = state.batches
        given = arguments.get("x"), arguments.get("steps_per_epoch")
        x, self._steps = _stream(*given, state.batches)
        place = state.extra.get(_PLACE, {"epoch": 0, "ended": False})
        self._epoch = arguments.get("epochs", 1) if place["ended"] else place["epoch"]
        # The weights at the end of an epoch, until averages or the best take their place.
        self._trained: checkpoints.Values = []
        self._prepared = True
        return arguments | {"x": x, "steps_per_epoch": self._steps, "initial_epoch": self._epoch}

    def on_train_begin(self, logs=None):
        if not self._prepared:
            raise UserError(
                f"Expected prepare() before each fit() of a {type(self.model).__name__}. Received: "
                "fit() alone. Call fit(**resume.prepare(x=..., callbacks=...))."
            )
        self._prepared = False
        if self._found:
            checkpoints.restore(self.model, self._found)
            ended = " (training has ended)" * (self._epoch >= self.params["epochs"])
            print(f"Continuing from {self._found}{ended}.")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    # Before the first batch all callbacks have said what they have to say of the epoch before.
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0 and self._found:  # what others did at the begin of the epoch is in it
            checkpoints.restore(self.model, self._found)
            self._restore_callbacks(self._found)
            self._found = None
        elif batch == 0 and self._batches:
            self._save(self._epoch)

    def on_epoch_end(self, epoch, logs=None):
        self._batches += self._steps
        # At its end `fit` puts the moving averages in their place, if the optimizer keeps some, and
        # EarlyStopping the best weights.
        of, every = checkpoints.averages(self.model), self._restoring()
        self._trained = [(w, np.array(w)) for w in self.model.weights if every or id(w) in of]

    def on_train_end(self, logs=None):
        if self._found:  # there was nothing to train
            self._restore_callbacks(self._found)
            for callback in self._restoring():
                if callback.best_weights is not None:
                    self.model.set_weights(callback.best_weights)
        else:
            with checkpoints.having(self._trained):
                self._save(self._epoch + 1, self.model.stop_training)

    def _restoring(self) -> list[Any]:
        """Returns the callbacks that restore the best weights at the end, as EarlyStopping may."""
        others = self._others.values()
        return [each for each in others if getattr(each, "restore_best_weights", False)]

    def _save(self, epoch: int, ended: bool = False) -> None:
        arrays: dict[str, np.ndarray] = {}
        for key, callback in self._others.items():
            held = vars(callback)
            found = {name: held[name] for name in _COUNTERS if held.get(name) is not None}
            found |= {f"{_BEST}/{i:04d}": w for i, w in enumerate(held.get(_BEST) or ())}
            arrays |= {f"{key}/{name}": np.array(value) for name, value in found.items()}
        extra = {_PLACE: {"epoch": epoch, "ended": ended}}
        step = int(np.asarray(self.model.optimizer.iterations))
        state = checkpoints.State(step=step, batches=self._batches, extra=extra)
        files = checkpoints.snapshot(self.model) | {FIT: checkpoints.encode(arrays)}
        checkpoints.write(self._folder, files, state)
        checkpoints.prune(self._folder, self._keep, step)

    def _restore_callbacks(self, path: pathlib.Path) -> None:
        arrays = checkpoints.read_arrays(path / FIT)
        for key, callback in self._others.items():
            for name in _COUNTERS:
                if (value := arrays.get(f"{key}/{name}")) is not None:
                    setattr(callback, name, value.item())
            if best := [arrays[n] for n in sorted(arrays) if n.startswith(f"{key}/{_BEST}/")]:
                setattr(callback, _BEST, best)


def _named(callbacks: Any) -> dict[str, keras.callbacks.Callback]:
    """Returns the callbacks by class, numbered within it."""
    given = callbacks_in(callbacks)
    kinds = [type(callback).__name__ for callback in given]
    return {f"{kind}-{kinds[:i].count(kind)}": given[i] for i, kind in enumerate(kinds)}


def _stream(x: Any, steps: int | None, start: int) -> tuple[Any, int]:
    """Returns endless data without their first `start` batches, and the steps of an epoch."""
    rest: Any = None
    if isinstance(x, Batches):
        steps, rest = steps or x.num_batches, itertools.chain.from_iterable(itertools.repeat(x))
        rest = itertools.islice(rest, start, None)
    elif hasattr(x, "cardinality"):
        steps, rest = steps or max(0, int(x.cardinality())), x.repeat().skip(start)
    elif callable(x):
        rest = x(start)
    elif isinstance(x, Iterator):
        rest = itertools.islice(x, start, None)
    if rest is None or not steps:
        raise UserError(
            "Expected x to be a tf.data.Dataset of known cardinality(), such as "
            "tf.data.Dataset.from_tensor_slices(...).shuffle(size, seed=seed).batch(size). With "
            "steps_per_epoch, x may be a generator, or f(n) that returns the data after n batches. "
            f"Received: {type(x).__name__}, steps_per_epoch={steps}."
        )
    if not hasattr(rest, "cardinality"):  # Keras takes a dict of a generator for no batch
        rest = ((batch,) if isinstance(batch, dict) else batch for batch in rest)
    return rest, steps
