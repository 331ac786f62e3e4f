"""Translate with a trained model: a file, a dataset, or what you type; or score translations.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive
    t2t-decoder --output_dir=RUN --score_file=PAIRS --decode_to_file=OUT

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" says how.
docs/decoding.md has them all: limits of length, samples, n-best lists, token scores, alignments.
A file of N lines gives N lines. For a parsing problem these are trees, and the repairs that made
them valid are counted. --decode_reference prints BLEU. --engine=ctranslate2 decodes with
CTranslate2, whose model goes into RUN/export; docs/decoding.md says when that is quicker.

A file may have any size. Stopped or killed, the same command goes on behind the last 8,192 lines
that were finished, and ends with the same file (--t2t_exact, which sorts all lines, begins anew).

--score_file reads lines "source TAB target" and writes for each the mean negative log-likelihood of
a target token, the end of the sentence included, and behind a tab the sum.
"""

from absl import flags

from t2t_repro import cli, progress, runs
from t2t_repro.scoring import files
from t2t_repro.views import scores


def define_flags(f: flags.FlagValues) -> None:
    cli.define_run_flags(f)

    def string(name: str, text: str) -> None:
        flags.DEFINE_string(name, None, text, flag_values=f)

    def boolean(name: str, text: str) -> None:
        flags.DEFINE_bool(name, False, text, flag_values=f)

    string("decode_from_file", "The sentences to translate, one a line; UTF-8, plain or .gz.")
    string("decode_to_file", "Where they go; default: a name made of source, model and beams.")
    string("score_file", "Pairs to score, one a line, with a tab between source and target.")
    string("decode_json_file", "With one of these two files: JSON lines with the exact scores.")
    text = "What --decode_to_file gets of --decode_from_file: text, or JSON lines."
    flags.DEFINE_enum("output_format", "text", ["text", "jsonl"], text, flag_values=f)
    string("partial_targets_file", "What each translation of a file begins with, a line for each.")
    string("ensemble", "RUN2,RUN3: runs that decode together with that of --output_dir.")
    string("decode_reference", "The right translations: print BLEU.")
    string("decode_hparams", 'How to decode: "name=value,name=value".')
    string("checkpoint_path", "The checkpoint; default: the newest of --output_dir.")
    boolean("decode_interactive", "Translate what is typed.")
    boolean("eval_use_test_set", "Without --decode_from_file: the test split, not dev.")
    boolean("t2t_exact", "Batches, length limits and score files exactly as tensor2tensor's.")
    engines = ["tensorflow", "ctranslate2"]
    text = "What computes; tensorflow stands for Keras's backend, whichever that is."
    flags.DEFINE_enum("engine", "tensorflow", engines, text, flag_values=f)
    text = "With --engine=ctranslate2: float32, int8, ... as it names them; default: as stored."
    flags.DEFINE_string("compute_type", "default", text, flag_values=f)
    string("engine_dir", "What t2t-exporter --format=ctranslate2 wrote; default: made when needed.")

    def whole(name: str, default: int, least: int, text: str) -> None:
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=f)

    whole("decode_shards", 1, 1, "As the decode hparam shards: of so many files, decode one:")
    whole("worker_id", 0, 0, "that of this number (the decode hparam shard_id), from 0 on.")


def main(args: flags.FlagValues) -> None:
    from t2t_repro.decoding.request import DecodeRequest
    from t2t_repro.interop import engines

    request, run = cli.request(args, DecodeRequest), runs.trained_run(**cli.run_flags(args))
    job = engines.carry_out(request, run, progress.on_stderr)
    if job.request.decode_reference and not job.request.decode_interactive:
        scores.print_table(files.score_files(job.target, job.request.decode_reference))


console = cli.program(__name__, "t2t-decoder", __doc__, define_flags, main)
