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

import dataclasses
import math
import os
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.bin import bleu, decoder_checks
from t2t_repro.files import write_text_atomic
from t2t_repro.problem import OutputType, Split
from t2t_repro.runs import TrainedRun, trained_run


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
    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.decoding.files import output_name, translate_examples, translate_file
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.decoding.translate import Translator, interact
    from t2t_repro.parsing.reader import TreeReader

    if args.t2t_usr_dir:
        from t2t_repro.interop import usr_dir

        usr_dir.load(args.t2t_usr_dir)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    run = trained_run(**cli.run_flags(args))
    config, problem = run.config, run.problem
    plain = DecodeHParams.parse("", problem.decode_hparams)
    settings = DecodeHParams.parse(args.decode_hparams or "", problem.decode_hparams)
    changes = {"shards": args["decode_shards"], "shard_id": args["worker_id"]}
    given: dict[str, Any] = {k: flag.value for k, flag in changes.items() if flag.present}
    settings = dataclasses.replace(settings, **given)
    names = (*decoder_checks.SOURCES, "decode_reference", "partial_targets_file")
    named = {name: getattr(args, name) for name in names}
    paths = {name: path and path + settings.shard_suffix for name, path in named.items()}
    for path in filter(None, paths.values()):
        if not os.path.isfile(path):
            raise FileNotFoundError(2, "No such file", path)
    source, reference = paths["decode_from_file"], paths["decode_reference"]
    decoder_checks.check(args, settings, plain, problem)
    reader = None
    if problem.output_type == OutputType.TREE and not (
        settings.raw_output or settings.identity_output
    ):
        reader = TreeReader()
    if args.engine == "ctranslate2":
        engine = load_engine(args, run, settings)
        translator = Translator(engine, run.encoders, settings, warn=cli.say, reader=reader)
    else:
        searches = _searches(args, settings)
        others = [trained_run(path) for path in (args.ensemble or "").split(",") if path]
        model = run.ensemble(
            others, args.checkpoint_path, with_weights=settings.return_alignments, say=cli.say
        )
        if args.score_file:
            return _score(args, settings, ModelEngine(model), run.encoders)
        translator = Translator(
            ModelEngine(model, searches),
            run.encoders,
            settings,
            t2t_exact=args.t2t_exact,
            warn=cli.say,
            reader=reader,
            constraint=_constraint(run) if settings.well_formed else None,
        )
    if args.decode_interactive:
        return interact(translator)
    if source:
        name = output_name(source, config.hparams_set, config.problem, settings)
        target = args.decode_to_file + settings.shard_suffix if args.decode_to_file else name
        details = args.decode_json_file and args.decode_json_file + settings.shard_suffix
        translate_file(
            translator,
            source,
            target,
            details,
            report=cli.say,
            prefixes=paths["partial_targets_file"],
            as_json=args.output_format == "jsonl",
        )
    else:
        from t2t_repro.data import records

        split = Split.TEST if args.eval_use_test_set else Split.EVAL
        base = args.decode_to_file or run.path / "decode" / f"{config.problem}.{split}"
        name = os.fspath(base) + settings.shard_suffix
        target = output_name(name, config.hparams_set, config.problem, settings)
        shard = settings.shard_id if settings.shards > 1 else None
        examples = records.read_split(problem, split, run.data_dir, shard)
        translate_examples(translator, examples, target, report=cli.say)
    print(f"Wrote {target}")
    if reader:
        write_text_atomic(f"{target}.repairs.json", reader.as_json())
        cli.say(f"{reader}; {target}.repairs.json has the numbers")
    if reference:
        bleu.print_table(bleu.score_files(target, reference))


def _searches(args: flags.FlagValues, settings: Any) -> int:
    """Returns how many searches share a batch: one where what else is computed needs all cores."""
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES

    whole = args.decode_interactive or args.t2t_exact or args.score_file
    if whole or settings.return_token_scores or settings.return_alignments:
        return 1
    return share_cores((settings.batch_size or BATCH_SENTENCES) * settings.beam_size)


def _constraint(run: TrainedRun) -> Any:
    from t2t_repro.parsing.reader import tree_constraint

    name = run.problem.lexicon_filename
    lexicon = name and os.path.join(run.vocabulary_dir, name)
    return tree_constraint(run.encoders["targets"], lexicon)


def _score(args: flags.FlagValues, settings: Any, engine: Any, encoders: dict[str, Any]) -> None:
    from t2t_repro.decoding.score import score_file

    shard = settings.shard_suffix
    target = args.decode_to_file + shard
    whole = score_file(
        engine,
        encoders,
        args.score_file + shard,
        target,
        json_file=args.decode_json_file and args.decode_json_file + shard,
        batch_size=settings.batch_size,
        t2t_exact=args.t2t_exact,
        report=cli.say,
    )
    print(
        f"Wrote {target}: {whole.mean:.6f} a token over all {whole.tokens:,} tokens, perplexity "
        f"{math.exp(min(whole.mean, 700)):.4f}"
    )


def load_engine(args: flags.FlagValues, run: TrainedRun, settings: Any) -> Any:
    """Returns the CTranslate2 engine of a run, whose model is written if need be."""
    from t2t_repro.bin import exporter
    from t2t_repro.interop import ctranslate2, ctranslate2_engine
    from t2t_repro.training import checkpoints

    ctranslate2.library()
    path = args.engine_dir
    if not path:
        source = run.checkpoint(args.checkpoint_path)
        path = run.path / "export" / f"ctranslate2-{checkpoints.step_of(source)}"
        if not path.exists():
            exporter.export_ctranslate2(
                run, path, settings, checkpoint=os.fspath(source), say=cli.say
            )
    engine = ctranslate2_engine.CTranslate2Engine(path, args.compute_type)
    cli.say(f"Decoding with CTranslate2 ({engine.compute_type}) and {path}")
    engine.check_vocabularies(run.encoders)
    return engine


def console() -> None:
    cli.run("t2t-decoder", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
