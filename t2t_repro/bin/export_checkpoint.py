"""Writes a checkpoint of a run as tensor2tensor 1.15.7 reads it.

  t2t-export-checkpoint --output_dir=t2t_runs/mine --t2t_dir=for_t2t

writes for_t2t/model.ckpt-STEP with hparams.json, flags.txt, `checkpoint` and the vocabulary.
tensor2tensor then decodes with it, and trains on if the optimizer's state is there:

  t2t-decoder --output_dir=for_t2t --data_dir=for_t2t --problem=PROBLEM --model=transformer \\
      --hparams_set=SET --decode_from_file=FILE
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.runs import trained_run

_HINTS = {
    "output_dir": "It is the folder of the run to export.",
    "t2t_dir": "It is the folder to write.",
}


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-export-checkpoint's flags."""
    flags.DEFINE_string("output_dir", None, "The run directory.", flag_values=f)
    flags.DEFINE_string("t2t_dir", None, "The folder to write.", flag_values=f)
    text = "The checkpoint: a ckpt-STEP folder, or a run (its newest, of RUN/best the best)."
    flags.DEFINE_string("checkpoint_path", None, text, flag_values=f)
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Exports what the flags name."""
    cli.check_given({name: args[name].value for name in _HINTS}, _HINTS)
    cli.check_filled(args, ["checkpoint_path"])
    run = trained_run(args.output_dir)
    run.check_checkpoint(args.checkpoint_path)
    from t2t_repro.interop import t2t_runs

    t2t_runs.export_checkpoint(run, args.t2t_dir, checkpoint=args.checkpoint_path)


console = cli.program(__name__, "t2t-export-checkpoint", __doc__, define_flags, main)
