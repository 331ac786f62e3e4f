"""Makes a run of a tensor2tensor checkpoint: translate with it, evaluate it, train it on.

  t2t-import-checkpoint --checkpoint=T2T_RUN --data_dir=T2T_DATA --output_dir=t2t_runs/imported
  t2t-decoder --output_dir=t2t_runs/imported --decode_from_file=FILE --decode_to_file=OUT

T2T_RUN is a folder with a `checkpoint` file (its newest is taken), or a prefix such as
T2T_RUN/model.ckpt-250000. The hparams come from hparams.json beside it, the problem from flags.txt;
where they are missing, --hparams_set, --hparams and --problem say it. Weights, optimizer state and
step are carried over. Import further checkpoints into the same --output_dir to average them.
"""

import sys

from absl import flags

from t2t_repro import cli

_HINTS = {
    "checkpoint": "It is the folder of a tensor2tensor run, or the path of one model.ckpt-STEP.",
    "output_dir": "It is the folder of the run to make.",
}


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-import-checkpoint's flags."""
    cli.define_run_flags(f)
    text = "The folder of a tensor2tensor run, or the prefix of one checkpoint."
    flags.DEFINE_string("checkpoint", None, text, flag_values=f)
    text = "Carry the optimizer's state over, where the checkpoint has it."
    flags.DEFINE_bool("optimizer_state", True, text, flag_values=f)
    text = "Fields of hparams.json to leave out, separated by commas."
    flags.DEFINE_list("ignore_hparams", [], text, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Imports what the flags name."""
    cli.check_given({name: args[name].value for name in _HINTS}, _HINTS)
    from t2t_repro.interop import t2t_runs

    request = cli.request(args, t2t_runs.ImportRequest)
    t2t_runs.import_checkpoint(request, command=["t2t-import-checkpoint", *sys.argv[1:]])


console = cli.program(__name__, "t2t-import-checkpoint", __doc__, define_flags, main)
