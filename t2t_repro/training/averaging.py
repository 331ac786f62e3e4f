"""The mean of checkpoints' weights (Section 6.1 of the paper; T2T utils/avg_checkpoints.py)."""

import collections
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints

Member = tuple[pathlib.Path, BinaryIO]  # a checkpoint, and its weights as an open file


def average(paths: Sequence[pathlib.Path], out: str | os.PathLike) -> pathlib.Path:
    """Averages weights in float64 and writes them as `out/ckpt-STEP`, STEP being the last one's.

    Raises:
        UserError: if names or shapes differ.
    """
    return list(rolling_average(opened(paths), out, len(paths)))[-1]


def opened(
    paths: Iterable[pathlib.Path], gone: Callable[[pathlib.Path], None] | None = None
) -> Iterator[Member]:
    """Yields checkpoints, each with its weights as an open file, as `rolling_average` takes them.

    Args:
        paths: the checkpoints.
        gone: called with one that a trainer has removed since it was found, which is left out;
            None: that is an error.
    """
    for path in paths:
        try:
            file = checkpoints.opened(path / checkpoints.WEIGHTS)
        except checkpoints.CorruptCheckpoint:
            if gone is None or path.exists():
                raise
            gone(path)
        else:
            yield path, file


def rolling_average(
    found: Iterable[Member], out: str | os.PathLike, window: int
) -> Iterator[pathlib.Path]:
    """Yields the average of each `window` successive checkpoints as it is written to `out`.

    It has the time of the last of them (T2T's bin/t2t_avg_all.py). A checkpoint is read when it
    comes, and once more when it leaves the window. Its file is open meanwhile, since a trainer may
    remove the checkpoint; all weights would not fit into memory.
    """
    sums: dict[str, np.ndarray] = {}
    members: collections.deque[Member] = collections.deque()
    try:
        for path, file in found:
            members.append((path, file))
            values = checkpoints.read_opened(file)
            if not sums:
                sums = {name: np.zeros(value.shape, "float64") for name, value in values.items()}
            shapes = {name: total.shape for name, total in sums.items()}
            checkpoints.check_shapes(shapes, values, path)
            for name, value in values.items():
                sums[name] += value
            if len(members) < window:
                continue
            means = {name: (sums[name] / window).astype(v.dtype) for name, v in values.items()}
            steps = [checkpoints.step_of(member) for member, _ in members]
            state = checkpoints.State(step=steps[-1], averaged=tuple(steps))
            arrays = {checkpoints.WEIGHTS: checkpoints.encode(means)}
            others = _is_of_others(pathlib.Path(out) / f"ckpt-{state.step}", state)
            written = checkpoints.write(pathlib.Path(out), arrays, state)
            if not others:  # which are known to be others by their time
                saved = os.fstat(file.fileno()).st_mtime
                os.utime(written, (saved, saved))  # t2t-bleu's curves are over this time, too
            yield written
            for name, value in checkpoints.read_opened(members[0][1]).items():
                sums[name] -= value
            members.popleft()[1].close()
    finally:
        for _, file in members:
            file.close()


def _is_of_others(path: pathlib.Path, state: checkpoints.State) -> bool:
    """Returns whether there is an average of this step already, of other checkpoints."""
    try:
        return checkpoints.read_state_file(path).state.averaged != state.averaged
    except checkpoints.CorruptCheckpoint:
        return False


def check_free(run: RunDirectory, out: RunDirectory) -> None:
    """Refuses a folder that is not for averages of the run, and holds what is not to be replaced.

    Raises:
        UserError: naming it.
    """
    received = ""
    if out.exists() and not run.is_continued_by(out):
        received = f"{out.path}, another run"
    for path in checkpoints.list_checkpoints(out.path):
        if not received and not checkpoints.read_state_file(path).state.averaged:
            received = f"{out.path}, whose {path.name} was trained"
    if received:
        raise UserError(
            "Expected --output_dir to be a new folder, or one of averages of the run. Received: "
            f"{received}. Name another."
        )
