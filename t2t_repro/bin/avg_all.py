"""t2t-avg-all: averages the weights of the last N checkpoints, for each checkpoint of a run.

  t2t-avg-all --model_dir=t2t_runs/ende --output_dir=t2t_runs/ende/avg --n=8

writes a run directory: decode with t2t-decoder --output_dir=t2t_runs/ende/avg. Its checkpoint
ckpt-STEP is the mean, computed in float64, of checkpoint STEP and the N-1 before it.

  t2t-avg-all --tune --model_dir=RUN
  t2t-decoder --output_dir=RUN/finished --decode_from_file=FILE

chooses weights, beam size and alpha by sacreBLEU on dev. It compares the newest checkpoint, the
average of the newest, the best checkpoint, and the average of those that t2t-trainer --keep_best
kept. If the learning rate falls to 0 at the end, the average of the newest takes only checkpoints
saved during the fall. Then it tries beam sizes and length penalties with the best weights. The
usual choice is an average (the newest checkpoint if the learning rate falls to 0), beam size 4 and
alpha 0.6. The usual choice is kept unless another one is better by more than 0.3 BLEU.

--tune writes a run directory with one checkpoint and decoding.json. t2t-decoder, t2t-exporter,
t2t-translate-all and t2t-visualize use the settings of that file unless --decode_hparams overrides
them. t2t-trainer --finish runs --tune after the training.
"""

import contextlib
import dataclasses
import os
import pathlib
import shlex
from collections.abc import Iterable, Iterator

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
    output_dir: str = flag("avg/", "Where to write the average; default with --tune: RUN/finished.")
    n: int = flag(8, "How many checkpoints to average; --tune averages at most this many.", least=1)
    min_steps: int = flag(0, "Ignore checkpoints before this step.", least=0)
    wait_minutes: int = flag(0, "Wait up to this many minutes for another checkpoint.", least=0)
    last_only: bool = flag(False, "Write only the average of the last n checkpoints.")
    tune: bool = flag(
        False, "Choose weights, beam size and alpha by BLEU on dev; write them to --output_dir."
    )
    data_dir: str | None = flag(
        None, "With --tune: the folder of TFRecords and vocabularies; default: the run's data_dir."
    )
    t2t_usr_dir: str | None = flag(None, "Your Python package of problems.")


def main(args: flags.FlagValues) -> None:
    """Averages what the flags name, or tunes it."""
    if not args.model_dir:
        raise UserError("Expected --model_dir, the run to average. Received: none.")
    if args.tune:
        cli.warn_unused(args, ["min_steps", "last_only", "wait_minutes"])
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


def average_all(request: AverageRequest) -> list[pathlib.Path]:
    """Writes the average of each `n` successive checkpoints of a run as a run directory.

    Args:
        request: the run, and which averages.

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
    _check_free(run, out, n)
    written: list[pathlib.Path] = []
    seen: list[pathlib.Path] = []

    paths: Iterable[pathlib.Path] = appearing(
        lambda: {checkpoints.step_of(p): p for p in checkpoints.list_checkpoints(run.path)},
        min_steps=least,
        wait_minutes=request.wait_minutes,
    )
    if request.last_only:
        paths = list(paths)[-n:]

    def gone(path: pathlib.Path) -> None:
        print(
            f"Skipped {path.name}: t2t-trainer removed it before it was read. Train with a larger "
            "--keep_checkpoint_max to avoid this."
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
            print(f"Averaged {', '.join(p.name for p in seen[-n:])} as {path}.")
    if not written:
        raise UserError(
            f"Expected at least n={n} checkpoints in {run.checkpoints_dir}. Received: "
            f"{len(seen)}{f' (--min_steps={least})' if least else ''}. Lower --n, or train longer."
        )
    return written


def _check_free(run: RunDirectory, out: RunDirectory, n: int) -> None:
    """Refuses as `checkpoints.check_free`, and folders of tuned weights or of another n."""
    from t2t_repro.training import checkpoints

    checkpoints.check_free(run, out)
    states = map(checkpoints.read_state, checkpoints.list_checkpoints(out.path))
    others = {len(each.averaged) for each in states} - {n}
    if others or (out.path / TUNED).exists():
        made = f"averages with --n={min(others)}" if others else f"{TUNED} of t2t-avg-all --tune"
        raise UserError(
            "Expected --output_dir to be a new folder, or to hold this run's averages with "
            f"--n={n}. Received: {out.path}, which holds {made}. Give another folder."
        )


console = cli.program(__name__, "t2t-avg-all", __doc__, (AverageRequest, tune.TuneRequest), main)
