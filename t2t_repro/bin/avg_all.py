"""t2t-avg-all: averages the weights of the last N checkpoints, for each checkpoint of a run.

  t2t-avg-all --model_dir=t2t_runs/ende --output_dir=t2t_runs/ende/avg --n=8

writes a run directory: decode with t2t-decoder --output_dir=t2t_runs/ende/avg. Its checkpoint
ckpt-STEP is the mean, computed in float64, of checkpoint STEP and the N-1 before it.

  t2t-avg-all --tune --model_dir=RUN
  t2t-decoder --output_dir=RUN/finished --decode_from_file=FILE

chooses on dev, by sacreBLEU. It tries the newest checkpoint, the mean of the newest (if the rate
falls to 0 at the end, of those during the fall) and of those that t2t-trainer --keep_best kept;
then length penalties and beams with the best weights. The usual choice (a mean, or the newest if
the rate falls to 0; beam 4, alpha 0.6) wins unless another is better by more than 0.3 BLEU. It
writes a run directory with one checkpoint and decoding.json, whose settings t2t-decoder,
t2t-exporter, t2t-translate-all and t2t-visualize use unless --decode_hparams overrides them.
t2t-trainer --finish does this at the end of a training.
"""

import contextlib
import dataclasses
import os
import pathlib
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.decoding import tune
from t2t_repro.errors import UserError
from t2t_repro.fields import flag, flags_of
from t2t_repro.files import appearing
from t2t_repro.run_directory import TUNED, RunDirectory, usr_dir_flag
from t2t_repro.runs import trained_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class AverageRequest:
    """The flags of t2t-avg-all, which are T2T's."""

    model_dir: str = flag("", "The run whose checkpoints to average.")
    output_dir: str = flag("avg/", "The folder of the result; default with --tune: RUN/finished.")
    n: int = flag(8, "How many checkpoints to average; with --tune: at most.", least=1)
    min_steps: int = flag(0, "Ignore checkpoints of fewer steps.", least=0)
    wait_minutes: int = flag(0, "Wait up to this many minutes for another checkpoint.", least=0)
    last_only: bool = flag(False, "Write only the average of the last n.")
    tune: bool = flag(
        False, "Choose weights, beams and alpha by BLEU on dev, and write one run of them."
    )
    data_dir: str | None = flag(
        None, "--tune: the folder of TFRecords and vocabularies; default: the run's."
    )
    t2t_usr_dir: str | None = flag(None, "Your own package of problems.")


def main(args: flags.FlagValues) -> None:
    """Averages what the flags name, or tunes it."""
    if not args.model_dir:
        raise UserError("Expected --model_dir, the run to average. Received: none.")
    if args.tune:
        tune_run(args)
        return
    cli.warn_unused(args, {"data_dir", *flags_of(tune.TuneRequest)} - {"n"})
    average_all(cli.request(args, AverageRequest))


def tune_run(args: flags.FlagValues) -> None:
    """Tunes the run that the flags name."""
    request = cli.request(args, tune.TuneRequest)
    run = trained_run(args.model_dir, args.data_dir)
    named = args.output_dir if args["output_dir"].present else None
    out = RunDirectory(named or os.path.join(args.model_dir, "finished"))
    tune.check(run, out)
    from t2t_repro import provenance
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES
    from t2t_repro.training import devices

    searches = share_cores(BATCH_SENTENCES * max(request.beams))
    tune.tune(run.on(devices.here()), out, request, searches=searches)
    provenance.write_of_run(out.path, "t2t-avg-all", run.path, data_dir=args.data_dir)
    known = shlex.quote(str(out.path)) + usr_dir_flag(run.config.t2t_usr_dir)
    print(f"Translate: t2t-decoder --output_dir={known} --decode_interactive")


def average_all(
    request: AverageRequest, *, say: Callable[[str], None] = print, clock: Any = time
) -> list[pathlib.Path]:
    """Writes the average of each `n` successive checkpoints of a run as a run directory.

    Args:
        request: the run, and which averages.
        say: gets a line for each average.
        clock: as in `files.appearing`.

    Returns:
        The checkpoints written.

    Raises:
        UserError: if there are fewer than `n` checkpoints, the weights of one are damaged, both
            runs are the same, or the folder is another run's or has averages of another `n`.
    """
    from t2t_repro.training import checkpoints

    run, out = RunDirectory(request.model_dir), RunDirectory(request.output_dir)
    n, least = request.n, request.min_steps
    assert run.config  # a folder that is not a run ends here, with a message
    if run.path.resolve() == out.path.resolve():
        raise UserError(f"Expected --output_dir to be another folder. Received: {run.path} twice.")
    _check_free(run, out, n)
    written: list[pathlib.Path] = []
    seen: list[pathlib.Path] = []

    paths: Iterable[pathlib.Path] = appearing(
        lambda: {checkpoints.step_of(p): p for p in checkpoints.list_checkpoints(run.path)},
        min_steps=least,
        wait_minutes=request.wait_minutes,
        clock=clock,
    )
    if request.last_only:
        paths = list(paths)[-n:]

    def gone(path: pathlib.Path) -> None:
        say(
            f"Skipped {path.name}: it was removed before it was read. --keep_checkpoint_max "
            "of t2t-trainer keeps more."
        )

    with contextlib.ExitStack() as stack:

        def counted() -> Iterator[checkpoints.Member]:
            for path, file in checkpoints.members(paths, gone):
                seen.append(path)
                if len(seen) == n:  # the first time that something is written
                    stack.enter_context(out.locked())
                    run.copy_description(out)  # so that no average is there that knows no run
                yield path, file

        for path in checkpoints.rolling_average(counted(), out.checkpoints_dir, n):
            written.append(path)
            say(f"Averaged {', '.join(p.name for p in seen[-n:])} as {path}.")
    if not written:
        raise UserError(
            f"Expected at least n={n} checkpoints in {run.checkpoints_dir}. Received: {len(seen)}"
            f"{f' from step {least} on' if least else ''}. Lower --n, or train on."
        )
    return written


def _check_free(run: RunDirectory, out: RunDirectory, n: int) -> None:
    """Refuses as `checkpoints.check_free`, and folders of tuned weights or of another n."""
    from t2t_repro.training import checkpoints

    checkpoints.check_free(run, out)
    states = map(checkpoints.read_state, checkpoints.list_checkpoints(out.path))
    others = {len(each.averaged) for each in states} - {n}
    if others or (out.path / TUNED).exists():
        made = f"averages with --n={min(others)}" if others else f"{TUNED} of --tune"
        raise UserError(
            f"Expected --output_dir to be a new folder, or one of averages of the run with "
            f"--n={n}. Received: {out.path}, with {made}. Name another."
        )


console = cli.program(__name__, "t2t-avg-all", __doc__, (AverageRequest, tune.TuneRequest), main)
