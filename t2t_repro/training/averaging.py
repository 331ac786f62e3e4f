"""The mean of checkpoints' weights (Section 6.1 of the paper; T2T utils/avg_checkpoints.py)."""

import collections
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory, owner
from t2t_repro.training import checkpoints


def average(paths: Sequence[pathlib.Path], out: str | os.PathLike) -> pathlib.Path:
    """Averages weights in float64 and writes them as `out/ckpt-STEP`, STEP being the last one's.

    Raises:
        UserError: if there is nothing to average, or names or shapes differ.
    """
    if not paths:
        raise UserError("Expected at least one checkpoint to average. Received: none.")
    return list(rolling_average(paths, out, len(paths)))[-1]


def rolling_average(
    paths: Iterable[pathlib.Path], out: str | os.PathLike, window: int
) -> Iterator[pathlib.Path]:
    """Yields the average of each `window` successive checkpoints as it is written to `out`."""
    sums: dict[str, np.ndarray] = {}
    members: collections.deque[pathlib.Path] = collections.deque()
    for path in paths:
        values = checkpoints.read_arrays(path / checkpoints.WEIGHTS)
        if not sums:
            sums = {name: np.zeros(value.shape, "float64") for name, value in values.items()}
        checkpoints.check_shapes({name: total.shape for name, total in sums.items()}, values, path)
        members.append(path)
        for name, value in values.items():
            sums[name] += value
        if len(members) < window:
            continue
        means = {name: (sums[name] / window).astype(v.dtype) for name, v in values.items()}
        state = checkpoints.State(
            step=checkpoints.step_of(path), averaged=tuple(checkpoints.step_of(p) for p in members)
        )
        arrays = {checkpoints.WEIGHTS: checkpoints.encode(means)}
        yield checkpoints.write(pathlib.Path(out), arrays, state)
        for name, value in checkpoints.read_arrays(members.popleft() / checkpoints.WEIGHTS).items():
            sums[name] -= value


def check_free(run: RunDirectory, out: RunDirectory) -> None:
    """Refuses a folder that is not for averages of the run, and holds what is not to be replaced.

    Raises:
        UserError: naming it.
    """
    received = ""
    if other := owner(out.checkpoints_dir):
        received = f"{out.path}, in the checkpoints of {other}"
    elif out.exists() and not run.is_continued_by(out):
        received = f"{out.path}, another run"
    for path in checkpoints.list_checkpoints(out.path):
        if not received and not checkpoints.read_state_file(path).state.averaged:
            received = f"{out.path}, whose {path.name} was trained"
    if received:
        raise UserError(
            "Expected --output_dir to be a new folder, or one of averages of the run. Received: "
            f"{received}. Name another."
        )
