"""t2t-checkpoint: imports checkpoints of tensor2tensor, and exports runs to its format.

  t2t-checkpoint import --checkpoint=T2T_RUN --data_dir=T2T_DATA --output_dir=t2t_runs/imported
  t2t-decoder --output_dir=t2t_runs/imported --decode_from_file=FILE --decode_to_file=OUT

T2T_RUN is a folder with a `checkpoint` file (its newest checkpoint is imported), or the prefix of a
checkpoint such as T2T_RUN/model.ckpt-250000. The hparams come from hparams.json in the same folder,
the problem from flags.txt; if these files are missing, give --hparams_set, --hparams and --problem.
Weights, optimizer state and step are imported. --all_checkpoints imports all checkpoints of the
run, for example to average them.

  t2t-checkpoint export --output_dir=t2t_runs/mine --t2t_dir=for_t2t

writes for_t2t/model.ckpt-STEP with hparams.json, flags.txt, `checkpoint` and the vocabulary.
tensor2tensor then decodes with it, and continues training if the optimizer state was exported:

  t2t-decoder --output_dir=for_t2t --data_dir=for_t2t --problem=PROBLEM --model=transformer \\
      --hparams_set=SET --decode_from_file=FILE
"""

import dataclasses
import sys

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.runs import trained_run

_NEEDED = {"import": ("checkpoint", "output_dir"), "export": ("output_dir", "t2t_dir")}
_OF_IMPORT = (
    "optimizer_state ignore_hparams target_space_id all_checkpoints problem hparams_set hparams "
    "data_dir"
).split()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointFlags:
    """The flags of t2t-checkpoint, beside those of the run and of the task."""

    action: str | None = flag(
        None, "import or export, as in t2t-checkpoint import.", choices=tuple(_NEEDED)
    )
    checkpoint: str | None = flag(
        None,
        "import: the folder of a tensor2tensor run, or the prefix of one checkpoint. export: a "
        "ckpt-STEP folder, or a run directory: its newest checkpoint (in RUN/best, the best).",
    )
    optimizer_state: bool = flag(
        True, "import: import the optimizer state too, if the checkpoint has it."
    )
    ignore_hparams: str = flag("", "import: fields of hparams.json to ignore, separated by commas.")
    target_space_id: int | None = flag(
        None, "import: the target space id used in training; default: the problem's.", least=0
    )
    all_checkpoints: bool = flag(
        False, "import: import all checkpoints of the run, except those already in --output_dir."
    )
    t2t_dir: str | None = flag(None, "export: the folder to write to.")


def main(args: flags.FlagValues) -> None:
    """Imports or exports what the flags name."""
    if not args.action:
        raise UserError("Expected t2t-checkpoint import, or t2t-checkpoint export. Received: none.")
    cli.warn_unused(args, ["t2t_dir"] if args.action == "import" else _OF_IMPORT)
    hints = dict.fromkeys(_NEEDED[args.action], "Run t2t-checkpoint --help for an example.")
    cli.check_given(args.flag_values_dict(), hints)
    if args.action == "import":
        from t2t_repro.interop import t2t_runs

        request = cli.request(args, t2t_runs.ImportRequest)
        t2t_runs.import_checkpoint(request, command=["t2t-checkpoint", *sys.argv[1:]])
    else:
        run = trained_run(args.output_dir)
        run.check_checkpoint(args.checkpoint)
        from t2t_repro.interop import t2t_runs

        t2t_runs.export_checkpoint(run, args.t2t_dir, checkpoint=args.checkpoint)


console = cli.program(
    __name__,
    "t2t-checkpoint",
    __doc__,
    (CheckpointFlags, cli.RunFlags, cli.TaskFlags),
    main,
    positional="action",
)
