"""Translate with a trained model: a file, a dataset, or what you type.

    t2t-decoder --output_dir=RUN --decode_from_file=FILE --decode_to_file=OUT
    t2t-decoder --output_dir=RUN                          (the problem's dev split)
    t2t-decoder --output_dir=RUN --decode_interactive

RUN is the directory that t2t-trainer made; the model, the problem and the vocabulary come from it.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100,batch_size=32,return_beams=True" says how.
A file of N lines gives N lines. --decode_reference prints BLEU.
"""

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

    if args.t2t_usr_dir:
        from t2t_repro.interop import usr_dir

        usr_dir.load(args.t2t_usr_dir)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    settings = DecodeHParams.parse(args.decode_hparams or "")
    run, config = cli.trained_run(args)
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
        from t2t_repro.data import records

        split = Split.TEST if args.eval_use_test_set else Split.EVAL
        base = args.decode_to_file or run.path / "decode" / f"{config.problem}.{split}"
        target = output_name(os.fspath(base), config.hparams_set, config.problem, settings)
        problem = get_problem(config.problem)
        examples = records.read_split(problem, split, args.data_dir or config.data_dir)
        translate_examples(translator, examples, target, report=_say)
    print(f"Wrote {target}")
    if reference:
        bleu.print_table(bleu.score_files(target, reference))


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
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import checkpoints

    problem = get_problem(config.problem)
    own = all((run.path / name).is_file() for name in problem.vocab_filenames)
    if data_dir:
        files = (os.path.join(data_dir, name) for name in problem.vocab_filenames)
        run.check_vocabularies(filter(os.path.isfile, files))
    encoders = problem.feature_encoders(data_dir or (str(run.path) if own else config.data_dir))
    # Not training's build_model: translating needs no optimizer and, on JAX, no TensorFlow.
    model = Transformer.from_hparams(
        config.hparams,
        inputs_vocab_size=encoders["inputs"].vocab_size,
        targets_vocab_size=encoders["targets"].vocab_size,
        target_space_id=problem.target_space_id,
    )
    state = checkpoints.load_weights(model, checkpoint_path or run.checkpoints_dir)
    _say(f"Decoding with step {state.step} of {checkpoint_path or run.path}")
    return model, encoders


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def console() -> None:
    cli.run("t2t-decoder", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
