"""t2t-finish: what comes after training: chooses checkpoints, beams and alpha on dev.

  t2t-finish --model_dir=RUN
  t2t-decoder --output_dir=RUN/finished --decode_from_file=FILE

tries the newest checkpoint, the mean of the newest (where the rate falls to 0 at the end, of those
since it falls), and of those that t2t-trainer --keep_best kept, then length penalties and beams
with the best of them, by sacreBLEU on the dev split. What is usual (a mean, but of a rate that
falls to 0 the newest, and beam 4, alpha 0.6) is taken unless something else is better by more than
0.3 BLEU. Writes RUN/finished: a run directory with one checkpoint, and decoding.json. t2t-decoder,
t2t-exporter, t2t-translate-all and t2t-visualize decode as it says, where --decode_hparams says
nothing else. t2t-trainer --finish does it at the end of a training.
"""

import os
import shlex

from absl import flags

from t2t_repro import cli, finishing
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory, usr_dir_flag
from t2t_repro.runs import trained_run


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-finish's flags."""
    text = "The run to finish, the --output_dir of t2t-trainer."
    flags.DEFINE_string("model_dir", None, text, flag_values=f)
    text = "The run directory of the result; default: finished in the run."
    flags.DEFINE_string("output_dir", None, text, flag_values=f)
    text = "The folder of TFRecords and vocabularies; default: the run's."
    flags.DEFINE_string("data_dir", None, text, flag_values=f)
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)
    cli.define_request_flags(f, finishing.FinishRequest)


def main(args: flags.FlagValues) -> None:
    """Finishes the run that the flags name."""
    if not args.model_dir:
        raise UserError("Expected --model_dir, the run to finish. Received: none.")
    cli.check_filled(args, ["output_dir"])
    request = cli.request(args, finishing.FinishRequest)
    run = trained_run(args.model_dir, args.data_dir)
    out = RunDirectory(args.output_dir or os.path.join(args.model_dir, "finished"))
    finishing.check(run, out)
    from t2t_repro.certificate.certify import certify_run
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES
    from t2t_repro.training import devices

    run = run.on(devices.here())
    searches = share_cores(BATCH_SENTENCES * max(request.beams))
    finishing.finish(run, out, request, searches=searches)
    certify_run(out.path, "t2t-finish", run.path, data_dir=args.data_dir)
    known = shlex.quote(str(out.path)) + usr_dir_flag(run.config.t2t_usr_dir)
    print(f"Translate: t2t-decoder --output_dir={known} --decode_interactive")


console = cli.program(__name__, "t2t-finish", __doc__, define_flags, main)
