"""Checkpoints: directories that are complete or not there, readable with numpy alone.

A checkpoint is a folder `ckpt-STEP` of

    weights.npz     the model's variables by name; all that decoding and averaging read. Where a
                    moving average is kept (moving_average.py), these are the averages
    training.npz    optimizer slots and random seeds' states, and the weights whose averages
                    weights.npz has; absent from an average
    state.json      step, position in the data, and the size of both files; written last

The zip format of .npz carries a CRC-32 of every array, which numpy checks as it reads, costs no
second pass, and stores plain bytes: as fast as the disk. Keras's own .weights.h5 numbers layers by
the order in which a process made them and has no checksum; tf.train.Checkpoint needs TensorFlow.
Everything is written under a temporary name, flushed to the disk, and renamed.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import ml_dtypes
import numpy as np

from t2t_repro import schema
from t2t_repro.errors import UserError
from t2t_repro.files import naming
from t2t_repro.progress import on_stderr
from t2t_repro.training.state import (
    STATE,
    TRAINING,
    WEIGHTS,
    CorruptCheckpoint,
    State,
    StateFile,
    no_checkpoint,
    read_ranking,
    read_state_file,
)

_NAME = re.compile(r"ckpt-(\d+)")
_INCOMPLETE = ".incomplete-"
_SHOWN = 20  # differences that an error lists
_RENAMED = {  # layers that have another name in checkpoints written before
    "/feed_forward/conv1/": "/feed_forward/intermediate_dense/",
    "/feed_forward/conv2/": "/feed_forward/output_dense/",
}
_BFLOAT16 = ":bfloat16"  # behind a name: numpy has no bfloat16, so its bits are stored as uint16


def list_checkpoints(directory: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the checkpoints of a run directory or a folder of checkpoints, oldest first."""
    folder = _folder(directory)
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(paths, key=step_of)


def step_of(path: pathlib.Path) -> int:
    """Returns the step that a checkpoint's name gives."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise UserError(f"Expected a checkpoint folder named ckpt-STEP. Received: {str(path)!r}.")
    return int(match[1])


def latest(
    directory: str | os.PathLike, warn: Callable[[str], None] = on_stderr
) -> pathlib.Path | None:
    """Returns the newest whole checkpoint, or None; names those that are not whole to `warn`.

    In a folder with a RANKING, as the `best` of a run, it is the first of that order instead.
    """
    for path in _by_preference(directory):
        try:
            verify(path)
        except CorruptCheckpoint as error:
            warn(f"Skipping a checkpoint that is not whole. {error}")
            continue
        return path
    return None


def _by_preference(directory: str | os.PathLike) -> list[pathlib.Path]:
    newest_first = list_checkpoints(directory)[::-1]
    try:
        ranking = read_ranking(_folder(directory))
    except (OSError, schema.Malformed):  # half of one says nothing
        ranking = None
    entries = ranking.ranking if ranking else ()
    places = {entry.step: place for place, entry in enumerate(entries)}
    return sorted(newest_first, key=lambda path: places.get(step_of(path), len(places)))


def verify(path: pathlib.Path) -> State:
    """Reads every byte of a checkpoint against its sizes and checksums.

    Raises:
        CorruptCheckpoint: naming the file and what is wrong with it.
    """
    content = read_state_file(path)
    for name, size in content.files.items():
        file = path / name
        actual = file.stat().st_size if file.is_file() else None
        if actual != size:
            received = "no such file" if actual is None else f"{actual}"
            raise CorruptCheckpoint(f"Expected {size} bytes in {file}. Received: {received}.")
        with _reading(file), zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
        if bad is not None:
            raise CorruptCheckpoint(
                f"Expected {file} as it was written. Received: changed {bad!r}."
            )
    return content.state


def write(
    folder: pathlib.Path, arrays: dict[str, dict[str, np.ndarray]], state: State
) -> pathlib.Path:
    """Writes {file: {name: array}} and `state` as `folder/ckpt-STEP`, atomically."""

    def fill(temporary: pathlib.Path) -> None:
        for name, values in arrays.items():
            with open(temporary / name, "wb") as file:
                np.savez(file, **values)  # type: ignore[arg-type]
                _flush(file)

    return _write(folder, state, fill)


def copy_weights(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Puts a checkpoint's weights into another folder of checkpoints; no copy where links work."""

    def fill(temporary: pathlib.Path) -> None:
        try:
            os.link(path / WEIGHTS, temporary / WEIGHTS)
        except OSError:
            shutil.copyfile(path / WEIGHTS, temporary / WEIGHTS)

    return _write(folder, read_state_file(path).state, fill)


def _write(
    folder: pathlib.Path, state: State, fill: Callable[[pathlib.Path], None]
) -> pathlib.Path:
    """Makes `folder/ckpt-STEP` of the files that `fill` puts into a folder, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{_INCOMPLETE}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = folder / f"{_INCOMPLETE}{state.step}"
    temporary.mkdir()
    try:
        with naming(folder):
            fill(temporary)
        files = {file.name: file.stat().st_size for file in sorted(temporary.iterdir())}
        content = StateFile(files=files, **vars(state))
        with naming(folder), open(temporary / STATE, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(content), file, indent=1)
            _flush(file)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    final = folder / f"ckpt-{state.step}"
    if final.exists():
        delete(final)
    os.rename(temporary, final)
    _flush_folder(folder)
    return final


def has_training_state(path: pathlib.Path) -> bool:
    """Whether `restore` finds optimizer slots and seeds in this checkpoint."""
    return TRAINING in read_state_file(path).files


def read_state(path: pathlib.Path) -> State:
    """Returns where the run stood at a checkpoint; the arrays are not looked at."""
    return read_state_file(path).state


def find(path: str | os.PathLike, warn: Callable[[str], None] = on_stderr) -> pathlib.Path:
    """Returns one checkpoint for a path: itself, or the one of a run directory that `latest` takes.

    Raises:
        UserError: if there is none.
    """
    path = pathlib.Path(path).expanduser()
    if _NAME.fullmatch(path.name) and path.is_dir():
        return path
    newest = latest(path, warn)
    if newest is None:
        raise no_checkpoint(path)
    return newest


def read_arrays(file: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns {name: array} of an .npz that `write` made; the checksums are checked."""
    with opened(file) as stream:
        return read_opened(stream)


def opened(file: pathlib.Path) -> BinaryIO:
    """Returns an .npz for `read_opened`, which can be read as often as is wished.

    Also once it was removed: its bytes stay on the disk until it is closed.
    """
    with _reading(file):
        return open(file, "rb")


def read_opened(file: BinaryIO) -> dict[str, np.ndarray]:
    """Returns what `read_arrays` does, of what `opened` returned."""
    with _reading(file.name):
        zipfile.ZipFile(file).close()  # what is none, NumPy would take for something else
        file.seek(0)
        with np.load(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
    return {
        _current(name.removesuffix(_BFLOAT16)): (
            a.view(ml_dtypes.bfloat16) if _BFLOAT16 in name else a
        )
        for name, a in arrays.items()
    }


def check_shapes(
    shapes: dict[str, tuple], values: dict[str, np.ndarray], path: pathlib.Path, else_: str = ""
) -> None:
    """Raises a UserError that lists every name or shape in which `values` differs.

    `else_` is a sentence about what else can be done.
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
        if any(name.startswith("shared_targets/") for name in values):
            else_ += (
                "; an earlier version tied the tables of targets and softmax of two vocabularies, "
                "which only that version reads"
            )
        raise UserError(
            f"Expected the weights of this model in {path}. Received: "
            f"{'; '.join(faults[:_SHOWN])}{more}. "
            f"Use the hparams and the vocabulary with which it was trained{else_}."
        )


def _current(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name


def encode(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays as numpy can store them: bfloat16 as uint16, with a mark on the name."""
    return {
        name + (_BFLOAT16 if a.dtype == ml_dtypes.bfloat16 else ""): (
            a.view("uint16") if a.dtype == ml_dtypes.bfloat16 else a
        )
        for name, a in arrays.items()
    }


@contextlib.contextmanager
def _reading(file: str | os.PathLike) -> Iterator[None]:
    """Turns what zipfile and NumPy raise of a file that is not as it was written into one error."""
    # RuntimeError, NotImplementedError too, is that of entries that say they are encrypted, or of
    # a kind that nobody knows.
    faults = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, RuntimeError)
    try:
        yield
    except (*faults, OSError) as error:
        raise CorruptCheckpoint(f"Expected {file} as it was written. Received: {error}.") from error


def _folder(directory: str | os.PathLike) -> pathlib.Path:
    """Returns the folder of the checkpoints: that of a run directory, or `directory` itself."""
    directory = pathlib.Path(directory).expanduser()
    inner = directory / "checkpoints"
    return inner if inner.is_dir() else directory


def delete(path: pathlib.Path) -> None:
    """Removes a checkpoint so that a kill leaves no half of one under its name."""
    hidden = path.with_name(f"{_INCOMPLETE}old-{path.name}")
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _flush(file) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
