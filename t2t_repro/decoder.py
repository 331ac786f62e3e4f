"""Translate with a trained model: a file, a dataset, or what you type; or score translations.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive
    t2t-decoder --output_dir=RUN --score_file=PAIRS --decode_to_file=OUT

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" says how.
A file of N lines gives N lines. --decode_reference prints BLEU.

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
from t2t_repro.problem import Split
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

    def whole(name: str, default: int, least: int, text: str) -> None:
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=f)

    whole("decode_shards", 1, 1, "As the decode hparam shards: of so many files, decode one:")
    whole("worker_id", 0, 0, "that of this number (the decode hparam shard_id), from 0 on.")


def main(args: flags.FlagValues) -> None:
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.decoding.translate import (
        Translator,
        interact,
        output_name,
        translate_examples,
        translate_file,
    )

    if args.t2t_usr_dir:
        from t2t_repro.interop import usr_dir

        usr_dir.load(args.t2t_usr_dir)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    settings = DecodeHParams.parse(args.decode_hparams or "")
    changes = {"shards": args["decode_shards"], "shard_id": args["worker_id"]}
    given: dict[str, Any] = {k: flag.value for k, flag in changes.items() if flag.present}
    settings = dataclasses.replace(settings, **given)
    run, config = cli.trained_run(args)
    named = {name: getattr(args, name) for name in (*_SOURCES, "decode_reference")}
    paths = {name: path and path + settings.shard_suffix for name, path in named.items()}
    for path in filter(None, paths.values()):
        if not os.path.isfile(path):
            raise FileNotFoundError(2, "No such file", path)
    source, reference = paths["decode_from_file"], paths["decode_reference"]
    _check(args, settings)
    model, encoders = load(run, config, args.data_dir, args.checkpoint_path)
    if args.score_file:
        return _score(args, settings, model, encoders)
    translator = Translator(model, encoders, settings, t2t_exact=args.t2t_exact, warn=_say)
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
        problem = get_problem(config.problem)
        shard = settings.shard_id if settings.shards > 1 else None
        examples = records.read_split(problem, split, args.data_dir or config.data_dir, shard)
        translate_examples(translator, examples, target, report=_say)
    print(f"Wrote {target}")
    if reference:
        bleu.print_table(bleu.score_files(target, reference))


_SOURCES = ("decode_from_file", "score_file")
_READ_BY_SCORING = ("batch_size", "shards", "shard_id")


def _check(args: flags.FlagValues, settings: Any) -> None:
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
    if not args.score_file:
        return
    if not args.decode_to_file:
        raise UserError("--score_file needs --decode_to_file, for the scores. Received: none.")
    if args.decode_reference:
        raise UserError("--score_file does not read --decode_reference. Leave it out.")
    read = {name: getattr(settings, name) for name in _READ_BY_SCORING}
    if type(settings)(**read) != settings:
        raise UserError(
            f"--score_file reads the decode hparams {', '.join(_READ_BY_SCORING)} only. Received: "
            f"{args.decode_hparams!r}. Leave the others out."
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

    problem = get_problem(config.problem)
    own = all((run.path / name).is_file() for name in problem.vocab_filenames)
    if data_dir:
        files = (os.path.join(data_dir, name) for name in problem.vocab_filenames)
        run.check_vocabularies(filter(os.path.isfile, files))
    folder = data_dir or (str(run.path) if own else config.data_dir)
    model = transformer_for(problem, config.hparams, folder)
    state = checkpoints.load_weights(model, checkpoint_path or run.checkpoints_dir)
    _say(f"Decoding with step {state.step} of {checkpoint_path or run.path}")
    return model, problem.feature_encoders(folder)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def console() -> None:
    cli.run("t2t-decoder", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
