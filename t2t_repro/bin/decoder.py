"""t2t-decoder: translates a file, a dataset or what you type; or scores translations.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive
    t2t-decoder --output_dir=RUN --score_file=PAIRS --decode_to_file=OUT

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
Decode hparams are set by
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True".
docs/decoding.md explains the common ones: length limits, sampling, n-best lists, token scores,
alignments. t2t_repro/decoding/settings.py lists all.

A file of N lines gives N lines. For a parsing problem each line is a tree; invalid trees are
repaired, and the repairs counted. --decode_reference prints BLEU. --engine=ctranslate2 decodes with
CTranslate2, whose model is written to RUN/export; docs/decoding.md says when that is faster.

A file may have any size. If interrupted, run the same command to resume after the last finished
block of 8,192 lines; the output is the same as without the interruption. With --t2t_exact,
where all lines are sorted first, and for parsing, it starts over.

--score_file reads lines "source TAB target" and writes for each the negative log-likelihood of
the target: the mean per token, a tab, and the sum. The end of the sentence counts as a token.
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
