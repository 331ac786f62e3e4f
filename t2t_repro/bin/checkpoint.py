"""Checkpoints of tensor2tensor 1.15.7 become runs, and runs become such checkpoints.

  t2t-checkpoint import --checkpoint=T2T_RUN --data_dir=T2T_DATA --output_dir=t2t_runs/imported
  t2t-decoder --output_dir=t2t_runs/imported --decode_from_file=FILE --decode_to_file=OUT

T2T_RUN is a folder with a `checkpoint` file (its newest is taken), or a prefix such as
T2T_RUN/model.ckpt-250000. The hparams come from hparams.json beside it, the problem from flags.txt;
where they are missing, --hparams_set, --hparams and --problem say it. Weights, optimizer state and
step are carried over. Import further checkpoints into the same --output_dir to average them.

  t2t-checkpoint export --output_dir=t2t_runs/mine --t2t_dir=for_t2t

writes for_t2t/model.ckpt-STEP with hparams.json, flags.txt, `checkpoint` and the vocabulary.
tensor2tensor then decodes with it, and trains on if the optimizer's state is there:

  t2t-decoder --output_dir=for_t2t --data_dir=for_t2t --problem=PROBLEM --model=transformer \\
      --hparams_set=SET --decode_from_file=FILE
"""

import sys

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.runs import trained_run

_HINTS = {
    "import": {
        "checkpoint": "It is the folder of a tensor2tensor run, or one model.ckpt-STEP.",
        "output_dir": "It is the folder of the run to make.",
    },
    "export": {
        "output_dir": "It is the folder of the run to export.",
        "t2t_dir": "It is the folder to write.",
    },
}
_OF_IMPORT = ("optimizer_state", "ignore_hparams", "problem", "hparams_set", "hparams", "data_dir")


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-checkpoint's flags."""
    flags.DEFINE_enum("action", None, list(_HINTS), "May stand alone.", flag_values=f)
    cli.define_run_flags(f)
    cli.define_task_flags(f)
    text = "import: the folder of a tensor2tensor run, or the prefix of one checkpoint; export: a "
    text += "ckpt-STEP folder, or a run (its newest, of RUN/best the best)."
    flags.DEFINE_string("checkpoint", None, text, flag_values=f)
    text = "import: carry the optimizer's state over, where the checkpoint has it."
    flags.DEFINE_bool("optimizer_state", True, text, flag_values=f)
    text = "import: fields of hparams.json to leave out, separated by commas."
    flags.DEFINE_list("ignore_hparams", [], text, flag_values=f)
    flags.DEFINE_string("t2t_dir", None, "export: the folder to write.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Imports or exports what the flags name."""
    if not args.action:
        raise UserError("Expected t2t-checkpoint import or t2t-checkpoint export. Received: none.")
    cli.warn_unread(args, ["t2t_dir"] if args.action == "import" else _OF_IMPORT)
    hints = _HINTS[args.action]
    cli.check_given({name: args[name].value for name in hints}, hints)
    if args.action == "import":
        from t2t_repro.interop import t2t_runs

        request = cli.request(args, t2t_runs.ImportRequest)
        t2t_runs.import_checkpoint(request, command=["t2t-checkpoint", *sys.argv[1:]])
    else:
        run = trained_run(args.output_dir)
        run.check_checkpoint(args.checkpoint)
        from t2t_repro.interop import t2t_runs

        t2t_runs.export_checkpoint(run, args.t2t_dir, checkpoint=args.checkpoint)


console = cli.program(__name__, "t2t-checkpoint", __doc__, define_flags, main, positional="action")
