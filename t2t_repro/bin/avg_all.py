"""t2t-avg-all: averages the weights of the last N checkpoints, for each checkpoint of a run.

  t2t-avg-all --model_dir=t2t_runs/ende --output_dir=t2t_runs/ende/avg --n=8

writes a run directory: decode with t2t-decoder --output_dir=t2t_runs/ende/avg. Its checkpoint
ckpt-STEP is the mean, computed in float64, of checkpoint STEP and the N-1 before it.
"""

import pathlib
import time
from collections.abc import Callable, Iterator

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-avg-all's flags, as T2T's."""
    flags.DEFINE_string("model_dir", "", "The run whose checkpoints to average.", flag_values=f)
    flags.DEFINE_string("output_dir", "avg/", "The folder of the averages.", flag_values=f)
    text = "How many checkpoints to average."
    flags.DEFINE_integer("n", 8, text, lower_bound=1, flag_values=f)
    text = "Ignore checkpoints of fewer steps."
    flags.DEFINE_integer("min_steps", 0, text, lower_bound=0, flag_values=f)
    text = "Wait up to this many minutes for another checkpoint."
    flags.DEFINE_integer("wait_minutes", 0, text, lower_bound=0, flag_values=f)
    text = "Write only the average of the last n."
    flags.DEFINE_bool("last_only", False, text, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Averages what the flags name."""
    if not args.model_dir:
        raise UserError("Expected --model_dir, the run to average. Received: none.")
    if args.last_only and args.wait_minutes:
        raise UserError(
            "Expected --last_only without --wait_minutes: it is not known which is the last. "
            f"Received: --wait_minutes={args.wait_minutes}."
        )
    average_all(
        RunDirectory(args.model_dir),
        RunDirectory(args.output_dir),
        args.n,
        min_steps=args.min_steps,
        wait_minutes=args.wait_minutes,
        last_only=args.last_only,
    )


def average_all(
    run: RunDirectory,
    out: RunDirectory,
    n: int,
    *,
    min_steps: int = 0,
    wait_minutes: float = 0,
    last_only: bool = False,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
) -> list[pathlib.Path]:
    """Writes the average of each `n` successive checkpoints of `run` as a run directory.

    Args:
        run: the run; it keeps its checkpoints.
        out: gets the averages, and the run's files but for its metrics and checkpoints.
        n: how many checkpoints to average.
        min_steps: ignore checkpoints of fewer steps.
        wait_minutes: wait this long for another checkpoint before the end.
        last_only: write the average of the last `n` alone.
        say: gets a line for each average.
        sleep: waits the seconds it is given.

    Returns:
        The checkpoints written.

    Raises:
        UserError: if there are fewer than `n` checkpoints, or both runs are one.
    """
    from t2t_repro.training import averaging

    run.config()  # a folder that is not a run ends here, with a message
    if run.path.resolve() == out.path.resolve():
        raise UserError(f"Expected --output_dir to be another folder. Received: {run.path} twice.")
    paths = _checkpoints(run, min_steps, wait_minutes, sleep)
    if last_only:
        paths = iter(list(paths)[-n:])
    written: list[pathlib.Path] = []
    seen: list[pathlib.Path] = []

    def counted() -> Iterator[pathlib.Path]:
        for path in paths:
            seen.append(path)
            yield path

    for path in averaging.rolling_average(counted(), out.checkpoints_dir, n):
        if not written:
            run.copy_description(out)
        written.append(path)
        say(f"Averaged {', '.join(p.name for p in seen[-n:])} as {path}.")
    if not written:
        raise UserError(
            f"Expected at least n={n} checkpoints in {run.checkpoints_dir}. Received: {len(seen)}"
            f"{f' from step {min_steps} on' if min_steps else ''}. Lower --n, or train on."
        )
    return written


def _checkpoints(
    run: RunDirectory, min_steps: int, wait_minutes: float, sleep: Callable[[float], None]
) -> Iterator[pathlib.Path]:
    """Yields the whole checkpoints by step, and new ones as they appear."""
    from t2t_repro.training import checkpoints

    last, waited = min_steps - 1, 0.0
    while True:
        found = [p for p in checkpoints.list_checkpoints(run.path) if checkpoints.step_of(p) > last]
        for path in found:
            checkpoints.verify(path)
            last, waited = checkpoints.step_of(path), 0.0
            yield path
        if waited >= 60 * wait_minutes:
            return
        if not found:
            sleep(10)
            waited += 10


console = cli.program(__name__, "t2t-avg-all", __doc__, define_flags, main)
