"""Exact resume of `fit`: killed at any moment and started again, it ends with the same bits."""

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from t2t_repro.data.pipeline import Batches
from t2t_repro.errors import UserError
from t2t_repro.models.guarded import FitCallback, callbacks_in
from t2t_repro.progress import on_stderr
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.checkpoints import Saver

FIT = "fit.npz"  # in a checkpoint: the metrics of the running epoch, the weights callbacks hold
_PLACE, _COUNTERS = "fit", "callbacks"  # in a state's `extra`
# What EarlyStopping, ReduceLROnPlateau and ModelCheckpoint know of the epochs before.
_KEPT = (
    *("best", "best_epoch", "best_weights", "wait", "cooldown_counter", "stopped_epoch"),
    *("epochs_since_last_save", "_batches_seen_since_last_saving", "_last_batch_seen"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Place:
    """Where `fit` stands between two steps.

    Attributes:
        epoch: the running one, as Keras counts.
        batch: how many of its batches have been trained on.
        ended: whether a callback has ended the training.
    """

    epoch: int = 0
    batch: int = 0
    ended: bool = False


class ExactResume(FitCallback):
    """Saves what `fit` needs to go on, and goes on from it when the same program runs again.

    That is what t2t-trainer saves (weights, optimizer slots, step, random seeds, the position in
    the data) and where the epoch stands, its metrics, and the counters of the EarlyStopping,
    ReduceLROnPlateau and ModelCheckpoint beside it. A program that was killed anywhere and is
    started again ends with the weights of one that was not, bit by bit, if its data are the same at
    each start. keras.callbacks.BackupAndRestore restores weights and slots at the start of an
    epoch, but neither the seeds of dropout nor the order of the data.

    `fit` of a Transformer finds its place in the data by itself. `fit` of any other model takes
    `**resume.prepare(x=..., ...)`, all its arguments by name. x is a tf.data.Dataset, whose end
    begins it again, or with steps_per_epoch a generator: the batches until there are read and left
    out. Quicker is a function of how many to leave out, which returns endless data: `lambda start:
    t2t_repro.data.dataset(..., start=start)`. Callbacks hear of the running epoch's batches again,
    with no logs.

    SwapEMAWeights(swap_on_epoch=True) belongs behind it in `callbacks`: in front of it, it has put
    the averages into the model before the trained weights are kept, and a longer `fit` begins with
    those averages.

    Example:

    >>> resume = t2t_repro.callbacks.ExactResume("run", save_freq=500)
    >>> model.fit(data, epochs=10, callbacks=[resume])

    Args:
        folder: gets `checkpoints/ckpt-STEP`, which t2t_repro.training.checkpoints reads.
        save_freq: save after this many batches; "epoch": after each epoch.
        keep: the newest this many checkpoints; 0: all.
    """

    _start: int  # the batches of the epochs before
    _batch: int  # of the running one
    _trained: checkpoints.Values  # the weights before their averages stand in their place

    def __init__(self, folder: str | os.PathLike, save_freq: int | str = "epoch", keep: int = 2):
        super().__init__()
        self._folder = RunDirectory(folder).checkpoints_dir
        self._save_freq = save_freq
        self._saver = _saver_of(self._folder, keep)
        self._prepared = self._passing_over = False
        self._found: pathlib.Path | None = None
        self._others: dict[str, keras.callbacks.Callback] = {}
        self._train_function: Any = None
        self._stand(_Place(), 0)

    def prepare(self, **arguments: Any) -> dict[str, Any]:
        """Returns the arguments of `fit`, with the data from where the newest checkpoint stands.

        Args:
            arguments: what `fit` is given, by name: x from its start, and all the others.

        Raises:
            UserError: if the position in such data cannot be found again, or there are checkpoints
                but none is whole.
        """
        self._others = _named(arguments.get("callbacks"))
        self._saver.wait()
        self._found = checkpoints.newest_whole(self._folder, on_stderr)
        if self._found:
            state = checkpoints.read_state(self._found)
            self._stand(_Place(**state.extra[_PLACE]), state.batches)
        else:
            self._stand(_Place(), 0)
        self._prepared = True
        x, steps = _stream(arguments)
        return arguments | {"x": _rest(x, self._start), "steps_per_epoch": steps}

    def on_train_begin(self, logs=None):
        if not self._prepared:
            raise UserError(
                "Expected ExactResume to know the data. Received: the fit of a "
                f"{type(self.model).__name__}. Give fit(**resume.prepare(x=..., callbacks=...))."
            )
        self._prepared = False
        if not self._found:
            return
        model, place = self.model, self._place
        checkpoints.restore(model, self._found)
        epochs = self.params["epochs"]
        done = place.ended or place.epoch >= epochs
        where = "it has ended" if done else f"epoch {place.epoch + 1}, batch {place.batch}"
        print(f"Continuing from {self._found} ({where}).")
        model._initial_epoch = epochs if place.ended else place.epoch
        self._resuming = True
        if place.batch:
            self._train_function = model.train_function
            model.train_function = self._train_or_pass_over

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        self._start, self._batch = self._start + self._batch, 0
        # At its end `fit` puts the moving averages in their place, if the optimizer keeps some, and
        # a callback in front of this one the best weights.
        of, every = checkpoints.averages(self.model), self._restoring()
        self._trained = [(w, np.array(w)) for w in self.model.weights if every or id(w) in of]

    # Between two steps all callbacks have said of the first what they have to say.
    def on_train_batch_begin(self, batch, logs=None):
        if self._resuming:
            self._passing_over = batch < self._place.batch
            if not self._passing_over:
                self._go_on()
            return
        due = self._batch == 0 and self._start > self._saved_at
        if isinstance(self._save_freq, int):
            due = self._start + self._batch - self._saved_at >= self._save_freq
        if due:
            self._save(_Place(epoch=self._epoch, batch=self._batch))

    def on_train_batch_end(self, batch, logs=None):
        self._batch = batch + 1

    def on_train_end(self, logs=None):
        model = self.model
        model._initial_epoch = None
        if self._resuming:  # there was nothing to train
            self._resuming = False
            self._restore_callbacks()
            for callback in self._restoring():
                if callback.best_weights is not None:
                    model.set_weights(callback.best_weights)
        else:
            with checkpoints.having(self._trained):
                self._save(_Place(epoch=self._epoch + 1, ended=model.stop_training))
        self._saver.wait()

    def _restoring(self) -> list[Any]:
        """Returns the callbacks that end a training by the best weights, as EarlyStopping may."""
        others = self._others.values()
        return [each for each in others if getattr(each, "restore_best_weights", False)]

    def _stand(self, place: _Place, batches: int) -> None:
        """Counts from a place on, behind so many batches."""
        self._place, self._saved_at = place, batches
        self._epoch, self._resuming = place.epoch, False
        self._start, self._batch = batches - place.batch, 0
        self._trained = []

    def _go_on(self) -> None:
        """Puts everything where it stood before the step that comes."""
        model = self.model  # under JAX this takes the state back from the training loop
        self._resuming = False
        if self._train_function is not None:
            model.train_function = self._train_function
        assert self._found
        checkpoints.restore(model, self._found)
        values = checkpoints.read_arrays(self._found / FIT)
        metrics = {n: a for n, a in values.items() if n.startswith("metric/")}
        checkpoints.assign(_metrics(model), metrics, self._found)
        self._restore_callbacks()

    def _train_or_pass_over(self, *arguments):
        """Stands in for the model's train function; draws a step's batches where they are done."""
        if not self._passing_over:
            return self._train_function(*arguments)
        self._passing_over = False
        *state, iterator = arguments  # the state is JAX's
        for _ in itertools.islice(iterator, self._model.steps_per_execution):
            pass
        return ({}, *state) if state else {}

    def _save(self, place: _Place) -> None:
        model = self.model
        arrays = {name: np.array(variable) for name, variable in _metrics(model).items()}
        counters: dict[str, Any] = {}
        for key, callback in self._others.items():
            held = {name: v for name, v in vars(callback).items() if name in _KEPT}
            for name, value in held.items():
                if isinstance(value, list):
                    arrays |= {f"{key}/{name}/{i:04d}": np.array(v) for i, v in enumerate(value)}
                elif value is not None:
                    counters.setdefault(key, {})[name] = np.asarray(value).item()
        step = int(np.asarray(model.optimizer.iterations))
        batches = self._start + self._batch
        extra = {_PLACE: dataclasses.asdict(place), _COUNTERS: counters}
        state = checkpoints.State(step=step, batches=batches, extra=extra)
        self._saver.save(model, state, {FIT: checkpoints.encode(arrays)})
        self._saved_at = batches

    def _restore_callbacks(self) -> None:
        assert self._found
        counters = checkpoints.read_state(self._found).extra[_COUNTERS]
        arrays = checkpoints.read_arrays(self._found / FIT)
        for key, callback in self._others.items():
            for name, value in counters.get(key, {}).items():
                setattr(callback, name, value)
            for name in _KEPT:
                start = f"{key}/{name}/"
                if held := [arrays[each] for each in sorted(arrays) if each.startswith(start)]:
                    setattr(callback, name, held)


@functools.cache
def _saver_of(folder: pathlib.Path, keep: int) -> Saver:
    """Returns the one of this process: a fit that was broken off may be writing there yet."""
    return Saver(folder, keep)


def _named(callbacks: Any) -> dict[str, keras.callbacks.Callback]:
    """Returns the callbacks by class, numbered among their like."""
    given = callbacks_in(callbacks)
    kinds = [type(callback).__name__ for callback in given]
    names = (f"{kind}-{kinds[:number].count(kind)}" for number, kind in enumerate(kinds))
    return dict(zip(names, given, strict=True))


def _stream(arguments: dict[str, Any]) -> tuple[Any, int]:
    """Returns endless data, or the function that makes them, and the steps of an epoch."""
    x: Any = arguments.get("x")
    steps = arguments.get("steps_per_epoch")
    if isinstance(x, Batches):
        size, endless = x.num_batches, itertools.chain.from_iterable(itertools.repeat(x))
    else:
        size = max(0, int(x.cardinality())) if hasattr(x, "cardinality") else None
        endless = x.repeat() if size else x
    ordered = size is not None or callable(x) or isinstance(x, Iterator)
    if not ordered or not (steps or size):
        raise UserError(
            "Expected a tf.data.Dataset of known cardinality(), such as "
            "tf.data.Dataset.from_tensor_slices(...).shuffle(size, seed=seed).batch(size), or with "
            "steps_per_epoch a generator or a function of the number of batches to leave out. "
            f"Received: {type(x).__name__}, steps_per_epoch={steps}."
        )
    return endless, int(steps or size or 0)


def _rest(x: Any, start: int) -> Any:
    """Returns endless data without so many batches, in a form that Keras takes."""
    if hasattr(x, "cardinality"):
        return x.skip(start)
    rest = x(start) if callable(x) else itertools.islice(x, start, None)
    if hasattr(rest, "cardinality"):
        return rest
    return ((batch,) if isinstance(batch, dict) else batch for batch in rest)


def _metrics(model: keras.Model) -> dict[str, keras.Variable]:
    variables = enumerate(model.metrics_variables)
    return {f"metric/{index:04d}": variable for index, variable in variables}
