"""t2t-decoder: translates a file, a dataset or what you type; or scores translations.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive
    t2t-decoder --output_dir=RUN --score_file=PAIRS --decode_to_file=OUT

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" sets how.
docs/decoding.md has the most used: length limits, samples, n-best lists, token scores, alignments;
t2t_repro/decoding/settings.py has all.

A file of N lines gives N lines. For a parsing problem these are trees, and the repairs that made
them valid are counted. --decode_reference prints BLEU. --engine=ctranslate2 decodes with
CTranslate2, whose model is written into RUN/export; docs/decoding.md tells when that is faster.

A file may have any size. If interrupted, run the same command to resume after the last finished
8,192 lines; it ends with the same file (--t2t_exact, which sorts all lines, starts over).

--score_file reads lines "source TAB target" and writes for each the mean negative log-likelihood of
a target token, the end of the sentence included, then a tab and the sum.
"""

from absl import flags

from t2t_repro import cli, progress, runs
from t2t_repro.decoding.decode_files import DecodeJob, DecodeRequest
from t2t_repro.scoring import files
from t2t_repro.views import scores


def main(args: flags.FlagValues) -> None:
    request, run = cli.request(args, DecodeRequest), runs.trained_run(**cli.run_flags(args))
    run.check_checkpoint(request.checkpoint_path)
    job = DecodeJob.from_request(request, run, progress.on_stderr)
    from t2t_repro.export import engines  # which are slow to load

    job.decode(engines.for_job(job, progress.on_stderr), progress.on_stderr)
    reference = job.request.decode_reference
    if reference and job.request.is_scored:
        scores.print_table(files.score_files(job.target, reference, job.translations))


console = cli.program(__name__, "t2t-decoder", __doc__, (cli.RunFlags, DecodeRequest), main)
