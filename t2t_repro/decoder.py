"""Translate with a trained model: a file, a dataset, or what you type.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" says how.
A file of N lines gives N lines. --decode_reference prints BLEU.
"""

import os
import pathlib
import sys
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory


def define_flags(f: flags.FlagValues) -> None:
    cli.define_run_flags(f)

    def string(name: str, text: str) -> None:
        flags.DEFINE_string(name, None, text, flag_values=f)

    def boolean(name: str, text: str) -> None:
        flags.DEFINE_bool(name, False, text, flag_values=f)

    string("decode_from_file", "The sentences to translate, one a line; UTF-8, plain or .gz.")
    string("decode_to_file", "Where they go; default: a name made of source, model and beams.")
    string("decode_json_file", "With --decode_from_file: every hypothesis with its exact scores.")
    string("decode_reference", "The right translations: print BLEU.")
    string("decode_hparams", 'How to decode: "name=value,name=value".')
    string("checkpoint_path", "The checkpoint; default: the newest of --output_dir.")
    boolean("decode_interactive", "Translate what is typed.")
    boolean("eval_use_test_set", "Without --decode_from_file: the test split, not dev.")
    boolean("t2t_exact", "Batches and length limits exactly as tensor2tensor's decoder has them.")


def main(args: flags.FlagValues) -> None:
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.decoding.translate import (
        Translator,
        interact,
        output_name,
        translate_examples,
        translate_file,
    )

    settings = DecodeHParams.parse(args.decode_hparams or "")
    run, config = _run(args)
    source, reference = args.decode_from_file, args.decode_reference
    for path in filter(None, (source, reference)):
        if not os.path.isfile(path):
            raise FileNotFoundError(2, "No such file", path)
    if args.decode_interactive and source:
        raise UserError(
            "Expected one thing to decode. Received: --decode_interactive and --decode_from_file. "
            "Leave one out."
        )
    if args.decode_json_file and not source:
        raise UserError(
            "--decode_json_file works with --decode_from_file. Received: no --decode_from_file. "
            "Leave it out."
        )
    model, encoders = load(run, config, args.data_dir, args.checkpoint_path)
    translator = Translator(model, encoders, settings, t2t_exact=args.t2t_exact, warn=_say)
    if args.decode_interactive:
        return interact(translator)
    if source:
        name = output_name(source, config.hparams_set, config.problem, settings)
        target = args.decode_to_file or name
        translate_file(translator, source, target, args.decode_json_file, report=_say)
    else:
        from t2t_repro.problem import Split

        split = Split.TEST if args.eval_use_test_set else Split.EVAL
        base = args.decode_to_file or run.path / "decode" / f"{config.problem}.{split}"
        target = output_name(os.fspath(base), config.hparams_set, config.problem, settings)
        examples = read_split(config, split, args.data_dir)
        translate_examples(translator, examples, target, report=_say)
    print(f"Wrote {target}")
    if reference:
        print_bleu(target, reference)


def load(
    run: RunDirectory,
    config: RunConfig,
    data_dir: str | None = None,
    checkpoint_path: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The trained model of a run, and its problem's encoders."""
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.registry import get_problem
    from t2t_repro.training import checkpoints

    problem = get_problem(config.problem)
    own = all((run.path / name).is_file() for name in problem.vocab_filenames)
    encoders = problem.feature_encoders(data_dir or (str(run.path) if own else config.data_dir))
    model = Transformer.from_hparams(
        config.hparams,
        inputs_vocab_size=encoders["inputs"].vocab_size,
        targets_vocab_size=encoders["targets"].vocab_size,
        target_space_id=problem.target_space_id,
    )
    state = checkpoints.load_weights(model, checkpoint_path or run.checkpoints_dir)
    _say(f"Decoding with step {state.step} of {checkpoint_path or run.path}")
    return model, encoders


def read_split(config: RunConfig, split: str, data_dir: str | None) -> Any:
    """The examples of a split, in the order of its files."""
    from t2t_repro.data import records
    from t2t_repro.registry import get_problem

    problem = get_problem(config.problem)
    sides = ("targets", "inputs") if problem.was_reversed else ("inputs", "targets")
    for path in records.find_shards(problem, split, data_dir or config.data_dir):
        for example in records.read_examples(path):
            yield {"inputs": example[sides[0]], "targets": example[sides[1]]}


def print_bleu(target: str | os.PathLike, reference: str) -> None:
    """Print every BLEU of a file of translations, each with its signature."""
    from t2t_repro.decoding.translate import read_lines
    from t2t_repro.scoring import bleu

    scores = bleu.score(list(read_lines(target)), list(read_lines(reference)))
    for name, value in scores.as_dict().items():
        if isinstance(value, dict):
            print(f"{name} {value['score']:.2f}  {value['signature']}")


def _run(args: flags.FlagValues) -> tuple[RunDirectory, RunConfig]:
    if args.t2t_usr_dir:
        from t2t_repro.registry import load_usr_dir

        load_usr_dir(args.t2t_usr_dir)
    if not args.output_dir:
        raise UserError(
            "Expected the directory of a trained run. Received: no --output_dir. "
            "Give the --output_dir of t2t-trainer."
        )
    run = RunDirectory(pathlib.Path(args.output_dir))
    config = run.config()
    given = {"problem": args.problem, "hparams_set": args.hparams_set}
    for name, value in given.items():
        if value and value != getattr(config, name):
            raise UserError(
                f"{run.path} was made with --{name}={getattr(config, name)}. "
                f"Received: --{name}={value}. Leave it out, or give another --output_dir."
            )
    if args.hparams and config.hparams.override(args.hparams) != config.hparams:
        raise UserError(
            f"{run.path} was made with other hparams than --hparams says. "
            f"Received: {args.hparams!r}. Leave it out; the run's hparams.json is used."
        )
    return run, config


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def console() -> None:
    cli.run("t2t-decoder", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
