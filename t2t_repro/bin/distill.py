"""t2t-distill: a student learns from the translations of a trained run, its teacher.

  t2t-distill --teacher=RUN --output_dir=DIR
  t2t-decoder --output_dir=DIR/model --decode_interactive

The teacher translates the sources of its training data, and the student is trained on these
translations. The student has the teacher's configuration with 6 encoder and 2 decoder layers, or
--hparams_set and --hparams. Its checkpoints are chosen on dev. It decodes greedily and is compared
with the teacher on dev (DIR/dev/comparison.json).

  --monolingual=more.en        further sentences that the teacher translates
  --back_translate=more.de     a student of the other direction, as large as the teacher, learns to
                               write these sentences from the teacher's translations

Each stage runs a program, whose command is printed. If interrupted, run the same command to resume;
finished stages are not repeated. A larger --train_steps continues the training. If the student's
learning rate falls to 0 at the end, give a new folder instead. docs/extras.md has more.
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.distill.request import DistillRequest


def main(args: flags.FlagValues) -> None:
    """Distills as the flags ask."""
    hint = "Give --teacher=RUN (a run of t2t-trainer or t2t-avg-all) and --output_dir=DIR."
    cli.check_given(args.flag_values_dict(), {"teacher": hint, "output_dir": hint})
    request = cli.request(args, DistillRequest)
    from t2t_repro.distill import stages

    stages.distill(request)


console = cli.program(__name__, "t2t-distill", __doc__, (DistillRequest,), main)
