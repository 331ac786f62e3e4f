"""Writes checkpoints behind the back of the next steps, and deletes those that no longer count."""

import pathlib
import threading

import keras
import numpy as np

from t2t_repro.training import checkpoints, model_state

PERMANENT = "permanent"  # in a state's `extra`: this checkpoint stays whatever is newer


class Saver:
    """Writes the checkpoints of one run, one at a time, each in a thread of its own.

    Args:
        folder: where they go.
        keep_max: delete the oldest beyond this many, but for the permanent ones; 0: keep all.
    """

    def __init__(self, folder: pathlib.Path, keep_max: int = 0):
        self._folder = folder
        self._keep_max = keep_max
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(
        self,
        model: keras.Model,
        state: checkpoints.State,
        more: dict[str, dict[str, np.ndarray]] | None = None,
    ) -> None:
        """Copies the model as it stands and begins to write it; the one before is written first.

        Args:
            model: as `model_state.snapshot` takes it.
            state: where the run stands.
            more: other files of the checkpoint: {file: {name: array}}.

        Raises:
            OSError: if that one could not be.
        """
        self.wait()
        arrays = model_state.snapshot(model) | (more or {})
        self._thread = threading.Thread(target=self._write, args=(arrays, state))
        self._thread.start()

    def wait(self) -> None:
        """Returns when what was saved is whole on the disk.

        Raises:
            OSError: if it could not be written, as on a full disk; the earlier ones are whole.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def check(self) -> None:
        """Raises what a write that has ended by now could not do; waits for nothing."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Waits like `wait`, but raises nothing: the block that it ends has said what is wrong."""
        if self._thread is not None:
            self._thread.join()

    def _write(self, arrays: dict, state: checkpoints.State) -> None:
        try:
            checkpoints.write(self._folder, arrays, state)
            prune(self._folder, self._keep_max, state.step)
        except BaseException as error:  # the training's thread raises it
            self._error = error


class NoSaver(Saver):
    """That of a worker which leaves the writing to the chief."""

    def __init__(self):
        super().__init__(pathlib.Path())

    def save(self, model: keras.Model, state: checkpoints.State, more: dict | None = None) -> None:
        """Writes nothing."""


def prune(folder: pathlib.Path, keep_max: int, step: int) -> None:
    """Deletes the oldest checkpoints beyond `keep_max` (0: none) of those up to `step`.

    A later one is damaged, or the run would not be here: it does not count. Nor does a permanent
    one, which stays.
    """
    if not keep_max:
        return
    until_now = [p for p in checkpoints.list_checkpoints(folder) if checkpoints.step_of(p) <= step]
    if len(until_now) <= keep_max:
        return
    temporary = [path for path in until_now if not _is_permanent(path)]
    for old in temporary[:-keep_max]:
        checkpoints.delete(old)


def _is_permanent(path: pathlib.Path) -> bool:
    try:
        return bool(checkpoints.read_state(path).extra.get(PERMANENT))
    except checkpoints.CorruptCheckpoint:
        return False
