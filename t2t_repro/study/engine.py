"""What every study shares: its runs one after another, how one is trained, and intervals."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory

MOST_SEEDS = 10
# Student's t at 97.5 %, by degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)

Program = Callable[[Sequence[str], str], None]  # runs a command; as `process.run_program`
Cell = TypeVar("Cell")


def half_interval(values: Sequence[float]) -> float | None:
    """Returns half of the 95 % interval of a mean, by Student's t; None: of fewer than two."""
    if len(values) < 2:
        return None
    return _T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))


def trainer_command(
    *,
    problem: str,
    hparams_set: str,
    hparams: str,
    data_dir: str,
    output_dir: str,
    every: int,
    keep: int,
    seed: int,
    more: Iterable[str] = (),
) -> list[str]:
    """Returns the command of t2t-trainer that makes a run of a study, or goes on with it."""
    return [
        *("t2t-trainer", f"--problem={problem}", f"--hparams_set={hparams_set}"),
        *([f"--hparams={hparams}"] if hparams else []),
        *(f"--data_dir={data_dir}", f"--output_dir={output_dir}"),
        *(f"--local_eval_frequency={every}", f"--keep_checkpoint_max={keep}"),
        f"--random_seed={seed}",
        *more,
    ]


def make_all(
    cells: Sequence[Cell],
    make: Callable[[Cell], None],
    run_of: Callable[[Cell], RunDirectory],
    after: Callable[[Cell, bool], object],
) -> list[Cell]:
    """Makes the runs of a study, one after another; returns those that failed.

    Args:
        cells: which.
        make: makes one. One that fails after it began to train does not stop the others.
        run_of: its folder.
        after: is told of each, and whether it failed.

    Raises:
        UserError: of `make`, where nothing was trained: the others would not train either.
    """
    failed = []
    for cell in cells:
        try:
            make(cell)
        except UserError as error:
            if not run_of(cell).read_metrics():
                raise
            print(error, flush=True)
            failed.append(cell)
        after(cell, cell in failed)
    return failed
