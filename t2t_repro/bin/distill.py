"""t2t-distill: a student learns from what a trained run, its teacher, writes.

  t2t-distill --teacher=RUN --output_dir=DIR
  t2t-decoder --output_dir=DIR/model --decode_interactive

has the teacher translate the sources of its training data, trains a student on that (the teacher's
configuration with 6 encoder layers and 2 decoder layers, or --hparams_set and --hparams), takes of
it what is best by dev, lets it decode greedily, and compares both on dev (DIR/dev/comparison.json).

  --monolingual=more.en        the teacher translates these, too
  --back_translate=more.de     a student of the other direction, as large as the teacher, learns to
                               write these sentences, from what the teacher makes of them

Each stage is a program of its own, whose command it prints. Stopped or killed, the same command
goes on; what is done is not done again. With more --train_steps it trains on, but for a student
whose rate falls to 0 at the end, which needs another folder.
docs/extras.md has more.
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.distill.request import DistillRequest


def main(args: flags.FlagValues) -> None:
    """Does what the flags ask for."""
    hint = "--teacher is a run that t2t-trainer or t2t-avg-all made."
    cli.check_given(args.flag_values_dict(), {"teacher": hint, "output_dir": hint})
    request = cli.request(args, DistillRequest)
    from t2t_repro.distill import stages

    stages.distill(request)


console = cli.program(__name__, "t2t-distill", __doc__, (DistillRequest,), main)
