"""Translate with a trained model: a file, a dataset, or what you type; or score translations.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive
    t2t-decoder --output_dir=RUN --score_file=PAIRS --decode_to_file=OUT

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" says how.
A file of N lines gives N lines. For a parsing problem these are trees, and the repairs that made
them valid are counted. --decode_reference prints BLEU. --engine=ctranslate2 decodes with
CTranslate2, several times as fast with --compute_type=int8; it writes its model into RUN/export.

A file may have any size. Stopped or killed, the same command goes on behind the last 8,192 lines
that were finished, and ends with the same file (--t2t_exact, which sorts all lines, begins anew).

--score_file reads lines "source TAB target" and writes for each the mean negative log-likelihood of
a target token, the end of the sentence included, and behind a tab the sum.
"""

import dataclasses
import math
import os
import sys
from typing import Any

from absl import flags

from t2t_repro import bleu, cli
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.problem import OutputType, Problem, Split
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
    from t2t_repro.decoding.files import output_name, translate_examples, translate_file
    from t2t_repro.decoding.parsing import TreeReader
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.decoding.translate import Translator, interact

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
    named = {name: getattr(args, name) for name in (*_SOURCES, "decode_reference")}
    paths = {name: path and path + settings.shard_suffix for name, path in named.items()}
    for path in filter(None, paths.values()):
        if not os.path.isfile(path):
            raise FileNotFoundError(2, "No such file", path)
    source, reference = paths["decode_from_file"], paths["decode_reference"]
    _check(args, settings, plain)
    _check_output(args, settings, problem)
    reader = None
    if problem.output_type == OutputType.TREE and not (
        settings.raw_output or settings.identity_output
    ):
        reader = TreeReader()
    if args.engine == "ctranslate2":
        engine, encoders = load_engine(args, run, config, settings)
        translator = Translator(None, encoders, settings, warn=_say, reader=reader, search=engine)
    else:
        model, encoders = load(run, config, args.data_dir, args.checkpoint_path)
        if args.score_file:
            return _score(args, settings, model, encoders)
        translator = Translator(
            model,
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
        translate_file(translator, source, target, details, report=_say)
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


_SOURCES = ("decode_from_file", "score_file")
_READ_BY_SCORING = ("batch_size", "shards", "shard_id")


def _constraint(run: RunDirectory, config: RunConfig, data_dir: str | None) -> Any:
    from t2t_repro.decoding.parsing import tree_constraint

    problem, folder = get_problem(config.problem), vocabulary_dir(run, config, data_dir)
    lexicon = problem.lexicon_filename and os.path.join(folder, problem.lexicon_filename)
    return tree_constraint(problem.feature_encoders(folder)["targets"], lexicon)


def _check_output(args: flags.FlagValues, settings: Any, problem: Problem) -> None:
    """Refuses what has no effect on the output of this problem."""
    trees = problem.output_type == OutputType.TREE
    given = [name for name in ("raw_output", "well_formed") if getattr(settings, name)]
    if given and not trees:
        raise UserError(
            f"Decode hparam {given[0]} has no effect on {problem.name}, which writes text. "
            f"Received: {given[0]}=True. Leave it out."
        )
    if args.decode_reference and trees:
        raise UserError(
            "--decode_reference prints the BLEU of translations. Received: it with "
            f"{problem.name}, which writes trees. Leave it out, and score them: t2t-score-trees."
        )


def _check(args: flags.FlagValues, settings: Any, plain: Any) -> None:
    """Refuses flags that contradict each other, or that what is asked for never reads."""
    wanted = [f"--{name}" for name in (*_SOURCES, "decode_interactive") if getattr(args, name)]
    if len(wanted) > 1:
        raise UserError(
            f"Expected one thing to decode. Received: {' and '.join(wanted)}. Leave one out."
        )
    if args.decode_json_file and not any(getattr(args, name) for name in _SOURCES):
        raise UserError(
            "--decode_json_file works with --decode_from_file and --score_file. Received: neither. "
            "Leave it out."
        )
    _check_engine(args, settings)
    if not args.score_file:
        return
    if not args.decode_to_file:
        raise UserError("--score_file needs --decode_to_file, for the scores. Received: none.")
    if args.decode_reference:
        raise UserError("--score_file does not read --decode_reference. Leave it out.")
    read = {name: getattr(settings, name) for name in _READ_BY_SCORING}
    if dataclasses.replace(plain, **read) != settings:
        raise UserError(
            f"--score_file reads the decode hparams {', '.join(_READ_BY_SCORING)} only. Received: "
            f"{args.decode_hparams!r}. Leave the others out."
        )


def _check_engine(args: flags.FlagValues, settings: Any) -> None:
    if args.engine == "ctranslate2":
        others = [f"--{name}" for name in ("score_file", "t2t_exact") if getattr(args, name)]
        others += ["force_decode_length"] * settings.force_decode_length
        others += ["well_formed"] * settings.well_formed
        if others:
            raise UserError(
                f"Expected what CTranslate2 can do. Received: {', '.join(others)} with "
                "--engine=ctranslate2. Leave one of them out."
            )
        return
    given = [f"--{name}" for name in ("compute_type", "engine_dir") if args[name].present]
    if given:
        raise UserError(
            f"Expected {' and '.join(given)} with --engine=ctranslate2. Received: "
            f"--engine={args.engine}. Leave it out, or choose that engine."
        )


def _score(args: flags.FlagValues, settings: Any, model: Any, encoders: dict[str, Any]) -> None:
    from t2t_repro.decoding.score import score_file

    shard = settings.shard_suffix
    target = args.decode_to_file + shard
    whole = score_file(
        model,
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
) -> tuple[Any, dict[str, Any]]:
    """Returns the trained model of a run, and its problem's encoders.

    Args:
        run: the run.
        config: what it is.
        data_dir: the folder of the vocabulary; None: the run's own copy, or where it was trained.
        checkpoint_path: a checkpoint or a run; None: the newest of `run`.
    """
    from t2t_repro.models.build import transformer_for
    from t2t_repro.training import checkpoints

    problem, folder = get_problem(config.problem), vocabulary_dir(run, config, data_dir)
    model = transformer_for(problem, config.hparams, folder)
    state = checkpoints.load_weights(model, checkpoint_path or run.checkpoints_dir)
    _say(f"Decoding with step {state.step} of {checkpoint_path or run.path}")
    return model, problem.feature_encoders(folder)


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
    from t2t_repro import exporter
    from t2t_repro.interop import ctranslate2
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
    engine = ctranslate2.Engine(path, args.compute_type)
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
