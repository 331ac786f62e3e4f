"""Checkpoints: directories that are whole or absent, readable with numpy alone.

A checkpoint is a folder `ckpt-STEP` of

    weights.npz     the model's variables by name; all that decoding and averaging read. Where the
                    optimizer keeps a moving average (hparam ema_decay), these are the averages
    training.npz    optimizer slots and random seeds' states, and the weights whose averages
                    weights.npz has; absent from an average
    state.json      step, position in the data, and the size of both files; written last

The zip format of .npz carries a CRC-32 of every array, which numpy checks as it reads, costs no
second pass, and stores plain bytes: as fast as the disk. Keras's own .weights.h5 numbers layers by
the order in which a process made them and has no checksum; tf.train.Checkpoint needs TensorFlow.
Everything is written under a temporary name, flushed to the disk, and renamed.

The module has the folders and their files, a model's variables in them, averages, and the thread
that writes them during training.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

import ml_dtypes
import numpy as np

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, scratch_folder
from t2t_repro.progress import on_stderr
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.state import (
    STATE,
    TRAINING,
    WEIGHTS,
    CorruptCheckpoint,
    State,
    no_checkpoint,
    read_ranking,
    read_state,
)

if TYPE_CHECKING:  # t2t-avg-all needs no Keras
    import keras

# In a state's `extra`: this checkpoint stays for good, or goes when the next is whole.
PERMANENT, PASSING = "permanent", "passing"
_NAME = re.compile(r"ckpt-(\d+)")
_SEED = "seed/"  # how the names of seeds of dropout begin
_SHOWN = 20  # differences that an error lists
_RENAMED = {  # layers that have another name in checkpoints written before
    "/feed_forward/conv1/": "/feed_forward/intermediate_dense/",
    "/feed_forward/conv2/": "/feed_forward/output_dense/",
}
_BFLOAT16 = ":bfloat16"  # behind a name: numpy has no bfloat16, so its bits are stored as uint16

Values = list[tuple["keras.Variable", Any]]  # arrays or variables of the weights' shapes
Member = tuple[pathlib.Path, BinaryIO]  # a checkpoint, and its weights as an open file


# --- folders and files


def list_checkpoints(directory: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the checkpoints of a run directory or a folder of checkpoints, oldest first."""
    folder = _folder(directory)
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if _NAME.fullmatch(p.name)), key=step_of)


def step_of(path: pathlib.Path) -> int:
    """Returns the step that a checkpoint's name gives."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise UserError(f"Expected a checkpoint folder named ckpt-STEP. Received: {str(path)!r}.")
    return int(match[1])


def latest(
    directory: str | os.PathLike, warn: Callable[[str], None] = on_stderr
) -> pathlib.Path | None:
    """Returns the newest whole checkpoint, or None; passes damaged ones to `warn`.

    In a folder with a RANKING, such as a run's `best`, it is the first of that order instead.
    """
    places: dict[int, int] = {}
    with contextlib.suppress(OSError, schema.Malformed):  # half of one says nothing
        ranking = read_ranking(_folder(directory)).ranking
        places = {entry.step: place for place, entry in enumerate(ranking)}
    newest_first = list_checkpoints(directory)[::-1]
    for path in sorted(newest_first, key=lambda path: places.get(step_of(path), len(places))):
        try:
            verify(path)
        except CorruptCheckpoint as error:
            warn(f"Skipping a damaged checkpoint. {error}")
            continue
        return path
    return None


def newest_whole(folder: pathlib.Path, warn: Callable[[str], None]) -> pathlib.Path | None:
    """Returns the checkpoint to resume from; None: there is none yet. See `latest`.

    Leftovers of a kill are removed.

    Raises:
        UserError: if all are damaged.
    """
    _remove_leftovers(folder)
    newest = latest(folder, warn)
    if newest is None and (damaged := list_checkpoints(folder)):
        raise UserError(
            f"Expected an intact checkpoint in {folder}. Received: {len(damaged)}, all damaged "
            "(see above). Restore one from a backup, or delete this folder to train from step 0."
        )
    return newest


def find(path: str | os.PathLike) -> pathlib.Path:
    """Returns one checkpoint for a path: itself, or the one of a run directory that `latest` takes.

    Raises:
        UserError: if there is none.
    """
    path = pathlib.Path(path).expanduser()
    if _NAME.fullmatch(path.name) and path.is_dir():
        return path
    newest = latest(path)
    if newest is None:
        raise no_checkpoint(path)
    return newest


def verify(path: pathlib.Path) -> State:
    """Reads every byte of a checkpoint against its sizes and checksums.

    Raises:
        CorruptCheckpoint: naming the file and what is wrong with it.
    """
    state = read_state(path)
    for name, size in state.files.items():
        file = path / name
        actual = file.stat().st_size if file.is_file() else None
        if actual != size:
            received = "no such file" if actual is None else f"{actual}"
            raise CorruptCheckpoint(f"Expected {size} bytes in {file}. Received: {received}.")
        with _reading(file), zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
        if bad is not None:
            raise CorruptCheckpoint(
                f"Expected an unchanged file {file}. Received: its entry {bad!r} is corrupt."
            )
    return state


def write(
    folder: pathlib.Path, arrays: dict[str, dict[str, np.ndarray]], state: State
) -> pathlib.Path:
    """Writes {file: {name: array}} and `state` as `folder/ckpt-STEP`, atomically."""
    with _writing(folder, state) as unfinished:
        for name, values in arrays.items():
            with open(unfinished / name, "wb") as file:
                np.savez(file, **values)  # type: ignore[arg-type]
                _flush(file)
    return folder / f"ckpt-{state.step}"


def copy_weights(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Puts a checkpoint's weights into another folder of checkpoints; no copy where links work."""
    with _writing(folder, read_state(path)) as unfinished:
        try:
            os.link(path / WEIGHTS, unfinished / WEIGHTS)
        except OSError:
            shutil.copyfile(path / WEIGHTS, unfinished / WEIGHTS)
    return folder / path.name


@contextlib.contextmanager
def _writing(folder: pathlib.Path, state: State) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which becomes `folder/ckpt-STEP` when the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    final = folder / f"ckpt-{state.step}"
    with scratch_folder(final) as unfinished:
        yield unfinished
        files = {file.name: file.stat().st_size for file in sorted(unfinished.iterdir())}
        with open(unfinished / STATE, "w", encoding="utf-8") as file:
            json.dump(vars(state) | {"files": files}, file, indent=1)
            _flush(file)
        if final.exists():
            delete(final)
        os.rename(unfinished, final)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: pathlib.Path) -> None:
    """Removes the leftovers of a kill during a write or a deletion."""
    for leftover in folder.glob(f"*{INCOMPLETE}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def delete(path: pathlib.Path) -> None:
    """Removes a checkpoint so that a kill leaves no half of one under its name."""
    hidden = path.with_name(f"{path.name}-old{INCOMPLETE}")
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def prune(folder: pathlib.Path, keep_max: int, step: int) -> None:
    """Deletes the oldest checkpoints beyond `keep_max` (0: none) of those up to `step`, and of
    those before it the passing ones.

    Later ones are damaged and do not count. Permanent ones do not count either, and stay.
    """
    _remove_leftovers(folder)
    kept = []
    for path in list_checkpoints(folder):
        extra: dict[str, Any] = {}
        with contextlib.suppress(CorruptCheckpoint):
            extra = read_state(path).extra
        if extra.get(PASSING) and step_of(path) < step:
            delete(path)
        elif not extra.get(PERMANENT) and step_of(path) <= step:
            kept.append(path)
    for path in kept[:-keep_max] if keep_max else []:
        delete(path)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns {name: array} of an .npz that `write` made; the checksums are checked."""
    with _opened(path) as file:
        return _read_opened(file)


def _opened(path: pathlib.Path) -> BinaryIO:
    with _reading(path):
        return open(path, "rb")


def _read_opened(file: BinaryIO) -> dict[str, np.ndarray]:
    """Returns the same of an open file, which may be read again."""
    with _reading(file.name):
        zipfile.ZipFile(file).close()  # NumPy would take another file for something else
        file.seek(0)
        with np.load(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
    return {
        _current(name.removesuffix(_BFLOAT16)): (
            a.view(ml_dtypes.bfloat16) if _BFLOAT16 in name else a
        )
        for name, a in arrays.items()
    }


def encode(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays as numpy can store them: bfloat16 as uint16, with a mark on the name."""
    stored = {}
    for name, array in arrays.items():
        is_half = array.dtype == ml_dtypes.bfloat16
        stored[name + _BFLOAT16 * is_half] = array.view("uint16") if is_half else array
    return stored


def check_shapes(
    shapes: Mapping[str, tuple], values: dict[str, np.ndarray], path: pathlib.Path, else_: str = ""
) -> None:
    """Raises a UserError that lists every name or shape in which `values` differs.

    `else_` is a sentence about another way out.
    """
    faults = [f"missing {name} {shape}" for name, shape in shapes.items() if name not in values]
    faults += [f"unknown {name} {values[name].shape}" for name in values if name not in shapes]
    faults += [
        f"{name} is {values[name].shape}, expected {shape}"
        for name, shape in shapes.items()
        if name in values and values[name].shape != shape
    ]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise UserError(
            f"Expected the weights of this model in {path}. Received: "
            f"{'; '.join(faults[:_SHOWN])}{more}. Use the hparams and the vocabulary that these "
            f"weights were trained with{else_}."
        )


def _current(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name


@contextlib.contextmanager
def _reading(file: str | os.PathLike) -> Iterator[None]:
    """Turns the errors of zipfile and NumPy on a damaged file into one."""
    # RuntimeError, also NotImplementedError, comes from entries marked as encrypted or of an
    # unknown kind.
    faults = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, RuntimeError)
    try:
        yield
    except (*faults, OSError) as error:
        raise CorruptCheckpoint(f"Expected an intact file {file}. Received: {error}.") from error


def _folder(directory: str | os.PathLike) -> pathlib.Path:
    """Returns the folder of the checkpoints: that of a run directory, or `directory` itself."""
    directory = pathlib.Path(directory).expanduser()
    inner = directory / "checkpoints"
    return inner if inner.is_dir() else directory


def _flush(file) -> None:
    file.flush()
    os.fsync(file.fileno())


# --- a model's variables


def weights(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns the model's weights by path, without the model's own name, which Keras may number."""
    named = {variable.path.removeprefix(f"{model.name}/"): variable for variable in model.weights}
    if len(named) < len(model.weights):
        raise ValueError(f"Expected a distinct path for each weight. Received: {sorted(named)}.")
    return named


def averages(model: "keras.Model") -> dict[int, "keras.Variable"]:
    """Returns {id of a weight: its moving average}; {} where the optimizer keeps none."""
    optimizer = _optimizer(model)
    if optimizer is None or not (optimizer.use_ema and optimizer.built):
        return {}
    pairs = zip(
        optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True
    )
    return {id(weight): average for weight, average in pairs}


def begin_averages(model: "keras.Model") -> None:
    """Sets the moving averages to the weights, unless an update has been made."""
    of = averages(model)
    if not of:
        return
    optimizer = _optimizer(model)
    batches = int(np.asarray(optimizer.iterations))
    if batches >= getattr(optimizer, "accumulate_steps", 1):  # Keras's own count updates
        return
    for weight in model.weights:
        if id(weight) in of:
            of[id(weight)].assign(np.array(weight))  # a copy: JAX would share the memory


def averaged(model: "keras.Model") -> contextlib.AbstractContextManager[None]:
    """Gives the model its moving averages, if it has some, during the block."""
    begin_averages(model)
    of = averages(model)
    return having([(weight, of[id(weight)]) for weight in model.weights if id(weight) in of])


@contextlib.contextmanager
def having(values: Values) -> Iterator[None]:
    """Gives weights other values during the block."""
    before = [(weight, np.array(weight)) for weight, _ in values]
    for weight, value in values:
        weight.assign(np.array(value))  # a copy: JAX would share the memory, and give it away
    try:
        yield
    finally:
        for weight, value in before:
            weight.assign(value)


def save(directory: str | os.PathLike, model: "keras.Model", state: State) -> pathlib.Path:
    """Writes `ckpt-STEP` into a folder of checkpoints.

    Args:
        directory: a run directory's `checkpoints`.
        model: built; its optimizer, if it has one, is saved too.
        state: where the run stands.
    """
    return write(pathlib.Path(directory), snapshot(model), state)


def snapshot(model: "keras.Model") -> dict[str, dict[str, np.ndarray]]:
    """Returns {file: {name: array}} of a model: copies, which the next step does not change."""
    saved = _saved_weights(model)
    begin_averages(model)
    training = _training_variables(model) if getattr(model, "optimizer", None) else {}
    return {
        file: encode({name: np.array(variable) for name, variable in named.items()})
        for file, named in {WEIGHTS: saved, TRAINING: training}.items()
        if named
    }


def restore(model: "keras.Model", path: str | os.PathLike) -> State:
    """Puts a checkpoint's weights, optimizer slots and seeds into a built, compiled model.

    Raises:
        UserError: if something does not fit (everything is listed), or it is an average.
    """
    path = pathlib.Path(path)
    state = read_state(path)
    if TRAINING not in state.files:
        steps = list(state.averaged)
        average = f" (the average of steps {steps})" if steps else ""
        raise UserError(
            f"Expected a checkpoint with training state. Received: {path}, which holds weights "
            f"only{average}. Decode with it, continue its original run, or start another run with "
            f"--warm_start_from={path}."
        )
    training, saved = read_arrays(path / TRAINING), read_arrays(path / WEIGHTS)
    assign(_saved_weights(model), saved, path)
    variables = _training_variables(model)
    for name in variables.keys() ^ training.keys():
        if name.startswith(_SEED):  # a dropout has become 0, or is no longer: new seeds stay
            variables.pop(name, None), training.pop(name, None)
    assign(variables, training, path)
    return state


def load_weights(model: "keras.Model", path: str | os.PathLike) -> State:
    """Puts only the weights into a built model.

    Args:
        model: built, with the checkpoint's hparams and vocabulary.
        path: a run directory or a folder of checkpoints (the newest whole one is taken, in `best`
            the best), or one checkpoint.

    Raises:
        UserError: if there is no checkpoint, or it does not fit: every difference is listed.
    """
    path = find(path)
    state = read_state(path)
    assign(weights(model), read_arrays(path / WEIGHTS), path)
    return state


def assign(variables: dict[str, "keras.Variable"], values: dict, path: pathlib.Path) -> None:
    """Assigns the arrays of the checkpoint `path` to {name: variable}; raises as `check_shapes`."""
    check_shapes({name: tuple(v.shape) for name, v in variables.items()}, values, path)
    for name, variable in variables.items():
        variable.assign(values[name])


def _saved_weights(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns the arrays of weights.npz: the weights, or their averages where there are some.

    It builds the optimizer.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    of = averages(model)
    return {name: of.get(id(weight), weight) for name, weight in weights(model).items()}


def _training_variables(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns the other variables that a step changes: optimizer and seeds, in a stable order."""
    named = {f"{_SEED}{index:04d}": seed for index, seed in enumerate(seed_variables(model))}
    of = averages(model)
    named |= {f"trained/{name}": w for name, w in weights(model).items() if id(w) in of}
    elsewhere = {id(average) for average in of.values()}
    for index, variable in enumerate(model.optimizer.variables):
        if id(variable) not in elsewhere:  # its own name holds the model's, which varies
            named[f"optimizer/{index:04d}"] = variable
    return named


def seed_variables(model: "keras.Model") -> list["keras.Variable"]:
    """Returns the states of the model's random numbers."""
    own = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in own]


def _optimizer(model: "keras.Model") -> Any:
    """Returns the optimizer that keeps the averages, also from inside one that scales the loss."""
    optimizer = getattr(model, "optimizer", None)
    return getattr(optimizer, "inner_optimizer", optimizer)


# --- means of checkpoints (Section 6.1 of the paper; T2T utils/avg_checkpoints.py)


def average(paths: Sequence[pathlib.Path], out: str | os.PathLike) -> pathlib.Path:
    """Averages weights in float64 and writes them as `out/ckpt-STEP`, with the last one's STEP.

    Raises:
        UserError: if names or shapes differ.
    """
    return list(rolling_average(members(paths), out, len(paths)))[-1]


def members(
    paths: Iterable[pathlib.Path], gone: Callable[[pathlib.Path], None] | None = None
) -> Iterator[Member]:
    """Yields checkpoints, each with its weights as an open file, as `rolling_average` takes them.

    Args:
        paths: the checkpoints.
        gone: called with one that a trainer has removed in the meantime, which is skipped; None:
            that is an error.
    """
    for path in paths:
        try:
            file = _opened(path / WEIGHTS)
        except CorruptCheckpoint:
            if gone is None or path.exists():
                raise
            gone(path)
        else:
            yield path, file


def rolling_average(
    found: Iterable[Member], out: str | os.PathLike, window: int
) -> Iterator[pathlib.Path]:
    """Yields the average of each `window` successive checkpoints as it is written to `out`.

    Its time is the last one's (T2T's bin/t2t_avg_all.py). A checkpoint is read when it enters the
    window, and again when it leaves it. Its file is open meanwhile, since a trainer may remove the
    checkpoint; all weights would not fit into memory.
    """
    folder, sums = pathlib.Path(out), dict[str, np.ndarray]()
    held: collections.deque[Member] = collections.deque()
    try:
        for path, file in found:
            held.append((path, file))
            values = _read_opened(file)
            if not sums:
                sums = {name: np.zeros(value.shape, "float64") for name, value in values.items()}
            check_shapes({name: total.shape for name, total in sums.items()}, values, path)
            for name, value in values.items():
                sums[name] += value
            if len(held) < window:
                continue
            means = {name: (sums[name] / window).astype(v.dtype) for name, v in values.items()}
            steps = tuple(step_of(member) for member, _ in held)
            before = _averaged(folder / f"ckpt-{steps[-1]}")
            state = State(step=steps[-1], averaged=steps)
            written = write(folder, {WEIGHTS: encode(means)}, state)
            if before in (None, steps):  # one of others is known to be another by its time
                saved = os.fstat(file.fileno()).st_mtime
                os.utime(written, (saved, saved))  # t2t-bleu's curves are over this time, too
            yield written
            for name, value in _read_opened(held[0][1]).items():
                sums[name] -= value
            held.popleft()[1].close()
    finally:
        for _, file in held:
            file.close()


def _averaged(path: pathlib.Path) -> tuple[int, ...] | None:
    """Returns the steps of which a checkpoint is the mean; None: there is no checkpoint."""
    with contextlib.suppress(CorruptCheckpoint):
        return read_state(path).averaged
    return None


def check_free(run: RunDirectory, out: RunDirectory) -> None:
    """Refuses the run's own folder, and one that holds other checkpoints than averages of the run.

    Raises:
        UserError: naming it.
    """
    if run.path.resolve() == out.path.resolve():
        raise UserError(f"Expected --output_dir other than --model_dir. Received: {run.path}.")
    other = out.exists() and not run.is_continued_by(out)
    trained = [path for path in list_checkpoints(out.path) if not read_state(path).averaged]
    if other or trained:
        received = "another run" if other else f"{trained[0].name}, which is not an average"
        raise UserError(
            f"Expected --output_dir={out.path} to be new, or to have only averages of {run.path}. "
            f"Received: a folder with {received}. Name another folder."
        )


# --- writing while the training goes on


class Saver:
    """Writes the checkpoints of one run, one at a time, in a thread beside the next steps.

    Args:
        folder: where they go; None: nowhere, for a worker that is not the chief.
        keep_max: delete the oldest beyond this many, except permanent ones; 0: keep all.
    """

    def __init__(self, folder: pathlib.Path | None, keep_max: int = 0):
        self._folder, self._keep_max = folder, keep_max
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def save(self, model: "keras.Model", state: State) -> None:
        """Copies the model and begins to write it; waits for the one before.

        Args:
            model: as `snapshot` takes it.
            state: where the run stands.

        Raises:
            OSError: if that one could not be written.
        """
        self.wait()
        if self._folder is not None:
            self._writing = self._thread.submit(self._write, self._folder, snapshot(model), state)

    def wait(self) -> None:
        """Waits until the checkpoint is whole on the disk.

        Raises:
            OSError: if it could not be written, as on a full disk; the earlier ones are whole.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def check(self) -> None:
        """Raises the error of a finished write; waits for nothing."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def close(self) -> None:
        """Waits like `wait`, but raises nothing: the block that ends has raised already."""
        self._thread.shutdown()

    def _write(self, folder: pathlib.Path, arrays: dict, state: State) -> None:
        write(folder, arrays, state)
        prune(folder, self._keep_max, state.step)
