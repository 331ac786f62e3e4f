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
import pathlib
import sys
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.bin import bleu, decoder_checks
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.problem import OutputType, Split
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunConfig, RunDirectory


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
    run, config = cli.trained_run(args)
    problem = get_problem(config.problem)
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
        engine, encoders = load_engine(args, run, config, settings)
        translator = Translator(engine, encoders, settings, warn=_say, reader=reader)
    else:
        searches = _searches(args, settings)
        others = [RunDirectory(path) for path in (args.ensemble or "").split(",") if path]
        model, encoders = load_ensemble(
            run,
            config,
            others,
            args.data_dir,
            args.checkpoint_path,
            with_weights=settings.return_alignments,
        )
        if args.score_file:
            return _score(args, settings, ModelEngine(model), encoders)
        translator = Translator(
            ModelEngine(model, searches),
            encoders,
            settings,
            t2t_exact=args.t2t_exact,
            warn=_say,
            reader=reader,
            constraint=_constraint(run, config, args.data_dir) if settings.well_formed else None,
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
            report=_say,
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
        examples = records.read_split(problem, split, args.data_dir or config.data_dir, shard)
        translate_examples(translator, examples, target, report=_say)
    print(f"Wrote {target}")
    if reader:
        write_text_atomic(f"{target}.repairs.json", reader.as_json())
        _say(f"{reader}; {target}.repairs.json has the numbers")
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


def _constraint(run: RunDirectory, config: RunConfig, data_dir: str | None) -> Any:
    from t2t_repro.parsing.reader import tree_constraint

    problem, folder = get_problem(config.problem), vocabulary_dir(run, config, data_dir)
    lexicon = problem.lexicon_filename and os.path.join(folder, problem.lexicon_filename)
    return tree_constraint(problem.feature_encoders(folder)["targets"], lexicon)


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
        report=_say,
    )
    print(
        f"Wrote {target}: {whole.mean:.6f} a token over all {whole.tokens:,} tokens, perplexity "
        f"{math.exp(min(whole.mean, 700)):.4f}"
    )


def load(
    run: RunDirectory,
    config: RunConfig,
    data_dir: str | None = None,
    checkpoint_path: str | None = None,
    *,
    with_weights: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Returns the trained model of a run, and its problem's encoders.

    Args:
        run: the run.
        config: what it is.
        data_dir: the folder of the vocabulary; None: the run's own copy, or where it was trained.
        checkpoint_path: a checkpoint or a run; None: the newest of `run`.
        with_weights: let it have attention weights. With attention_chunk_size=0 it has the same
            variables and computes the same, in more memory.
    """
    from t2t_repro.models.build import transformer_for
    from t2t_repro.training import checkpoints

    problem, folder = get_problem(config.problem), vocabulary_dir(run, config, data_dir)
    whole = "attention_chunk_size=0" if with_weights else ""
    model = transformer_for(problem, config.hparams.override(whole), folder)
    state = checkpoints.load_weights(model, checkpoint_path or run.checkpoints_dir)
    _say(f"Decoding with step {state.step} of {checkpoint_path or run.path}")
    return model, problem.feature_encoders(folder)


def load_ensemble(
    run: RunDirectory,
    config: RunConfig,
    others: list[RunDirectory],
    data_dir: str | None = None,
    checkpoint_path: str | None = None,
    *,
    with_weights: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Returns the model of a run, or an `Ensemble` of it and those of others; its encoders.

    Args:
        run: the run.
        config: what it is.
        others: runs of the same problem; the newest checkpoint of each is taken.
        data_dir: as in `load`.
        checkpoint_path: as in `load`; that of `run`.
        with_weights: as in `load`.

    Raises:
        UserError: if another run is of another problem, or its vocabulary is another.
    """
    first, encoders = load(run, config, data_dir, checkpoint_path, with_weights=with_weights)
    if not others:
        return first, encoders
    from t2t_repro.decoding.ensemble import Ensemble

    models, problem = [first], get_problem(config.problem)
    for other in others:
        its = other.config()
        if its.problem != config.problem:
            raise UserError(
                f"Expected runs of {config.problem} in --ensemble. Received: {other.path}, of "
                f"{its.problem}. Leave it out."
            )
        folders = vocabulary_dir(run, config, data_dir), vocabulary_dir(other, its)
        for name in problem.vocab_filenames:
            mine, theirs = (pathlib.Path(folder, name).read_bytes() for folder in folders)
            if mine.splitlines() != theirs.splitlines():
                raise UserError(
                    "Expected runs with the same vocabulary in --ensemble. Received: "
                    f"{other.path}, whose {name} is not that of {run.path}. Leave it out."
                )
        models.append(load(other, its, with_weights=with_weights)[0])
    return Ensemble(models), encoders


def vocabulary_dir(run: RunDirectory, config: RunConfig, data_dir: str | None = None) -> str:
    """Returns the folder of a run's vocabulary: `data_dir`, the run itself, or its data_dir.

    Raises:
        UserError: if the vocabulary in `data_dir` is not that of the run.
    """
    problem = get_problem(config.problem)
    own = all((run.path / name).is_file() for name in problem.vocab_filenames)
    if data_dir:
        files = (os.path.join(data_dir, name) for name in problem.vocab_filenames)
        run.check_vocabularies(filter(os.path.isfile, files))
    return data_dir or (str(run.path) if own else config.data_dir)


def load_engine(
    args: flags.FlagValues, run: RunDirectory, config: RunConfig, settings: Any
) -> tuple[Any, dict[str, Any]]:
    """Returns the CTranslate2 engine of a run, whose model is written if need be; its encoders."""
    from t2t_repro.bin import exporter
    from t2t_repro.interop import ctranslate2, ctranslate2_engine
    from t2t_repro.training import checkpoints

    ctranslate2.library()
    path = args.engine_dir
    if not path:
        source = checkpoints.find(args.checkpoint_path or run.path)
        path = run.path / "export" / f"ctranslate2-{checkpoints.step_of(source)}"
        if not path.exists():
            exporter.export_ctranslate2(
                run,
                config,
                path,
                settings,
                data_dir=args.data_dir,
                checkpoint=os.fspath(source),
                say=_say,
            )
    engine = ctranslate2_engine.CTranslate2Engine(path, args.compute_type)
    _say(f"Decoding with CTranslate2 ({engine.compute_type}) and {path}")
    folder = vocabulary_dir(run, config, args.data_dir)
    encoders = get_problem(config.problem).feature_encoders(folder)
    engine.check_vocabularies(encoders)
    return engine, encoders


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def console() -> None:
    cli.run("t2t-decoder", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
