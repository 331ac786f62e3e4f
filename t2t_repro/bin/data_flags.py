"""Flags that say what data are made: those that t2t-datagen, -trainer and -own-text share."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import cli
from t2t_repro.corpora.request import RawText
from t2t_repro.errors import UserError
from t2t_repro.fields import flags_of
from t2t_repro.problem import Problem
from t2t_repro.runs import trained_run

if TYPE_CHECKING:
    from t2t_repro.data.job import Job

_VOCABULARIES = {"source_vocab": "inputs", "target_vocab": "targets"}
VOCABULARY_FLAGS = ("vocab_size", "vocab", "vocab_from", *_VOCABULARIES)
CHECK_FLAGS = ("check_data", "drop_bad_pairs", "keep_bad_pairs")
_RAW_FILE_FLAGS = {
    "treebank_dir": "For the parsing problems: the folder of a Penn Treebank's wsj_0200.mrg and so "
    "on; it becomes the trees files in --tmp_dir. Sections 02-21 are training, 22 dev, 23 test.",
    "treebank_split": "With --treebank_dir: split by file instead, in these shares of training, "
    "dev and test, such as 0.8,0.1,0.1. For a part of the treebank.",
}


def define_raw_file_flags(f: flags.FlagValues) -> None:
    """Defines the flags that single problems read when they prepare their raw files."""
    for name, text in _RAW_FILE_FLAGS.items():
        flags.DEFINE_string(name, None, text, flag_values=f)
    cli.define_request_flags(f, RawText)


def raw_file_options(args: flags.FlagValues) -> dict[str, Any]:
    """Returns the flags of `define_raw_file_flags` that were given, for `prepare_raw_files`.

    Raises:
        UserError: if they contradict each other.
    """
    names = [*_RAW_FILE_FLAGS, *flags_of(RawText)]
    options = {name: args[name].value for name in names if args[name].present}
    RawText.of(options)
    return options


def define_vocabulary_flags(f: flags.FlagValues) -> None:
    """Defines the flags that say what vocabulary a problem's files are made with."""
    text = "About how many subwords to build; 0: as the problem says, else as the text supports."
    flags.DEFINE_integer("vocab_size", 0, text, 0, 2**20, flag_values=f)
    text = "The vocabulary of a run, whose weights t2t-trainer --warm_start_from shall begin with; "
    text += "with --vocab_size as many subwords in all, new ones of this text behind the run's."
    flags.DEFINE_string("vocab_from", None, text, flag_values=f)
    for name in ("vocab", *_VOCABULARIES):
        side = name.partition("_")[0] if name in _VOCABULARIES else "both sides"
        text = f"A vocabulary of your own for {side}: T2T's subwords or a SentencePiece "
        text += "model. For text2text_tmpdir."
        flags.DEFINE_string(name, None, text, flag_values=f)


def vocabulary_options(args: flags.FlagValues) -> dict[str, Any]:
    """Returns the flags of `define_vocabulary_flags` as fields of `Job`.

    Raises:
        UserError: if they contradict each other.
    """
    given = [name for name in VOCABULARY_FLAGS[1:] if args[name].value]
    if given and given not in (["vocab"], ["vocab_from"], list(_VOCABULARIES)):
        received = " and ".join(f"--{name}" for name in given)
        raise UserError(
            "Expected --vocab or --vocab_from alone, or --source_vocab and --target_vocab. "
            f"Received: {received}."
        )
    if given and args.vocab_size and not args.vocab_from:
        raise UserError(
            f"Expected --vocab_size, or --{given[0]}, which has a size. Received: both. Leave one "
            "out."
        )
    files = {side: args[name].value or args.vocab for name, side in _VOCABULARIES.items()}
    if args.vocab_from:
        files = trained_run(args.vocab_from).vocabularies
    paths = {side: os.path.expanduser(path) for side, path in files.items() if path}
    return {"vocab_size": args.vocab_size, "vocabularies": paths}


def define_check_flags(f: flags.FlagValues) -> None:
    """Defines `CHECK_FLAGS`."""
    check = (
        "Check the text before files are made of it, and write a report: the default for your own."
    )
    flags.DEFINE_bool("check_data", None, check, flag_values=f)
    drop = "Leave out the pairs with errors, and with what is surely a fault; a file names them."
    flags.DEFINE_bool("drop_bad_pairs", False, drop, flag_values=f)
    keep = "Take all pairs, also those with errors."
    flags.DEFINE_bool("keep_bad_pairs", False, keep, flag_values=f)


def check_needs(args: flags.FlagValues) -> None:
    """Refuses flags of t2t-trainer about data that it does not make, or that contradict each other.

    Raises:
        UserError: naming them.
    """
    of_the_data = (*VOCABULARY_FLAGS, *CHECK_FLAGS)
    cli.check_needs(args, dict.fromkeys(of_the_data, ("generate_data", "train_source")))
    raw_file_options(args)
    vocabulary_options(args)
    _asked(args)


def check_of(args: flags.FlagValues, problem: Problem) -> str:
    """Returns what `Job.check` is to be for a problem.

    Raises:
        UserError: if the flags contradict each other.
    """
    from t2t_repro.data.corpus_check import check_unasked
    from t2t_repro.data.job import DROP, KEEP

    if given := _asked(args):
        return {"--drop_bad_pairs": DROP, "--keep_bad_pairs": KEEP}.get(given, "")
    return check_unasked(problem) or (KEEP if args.check_data else "")


def _asked(args: flags.FlagValues) -> str:
    """Returns which of the flags was given; "": none."""
    given = ["--drop_bad_pairs"] * args.drop_bad_pairs + ["--keep_bad_pairs"] * args.keep_bad_pairs
    given = ["--nocheck_data"] * (args.check_data is False) + given
    if len(given) > 1:
        raise UserError(
            "Expected one of --nocheck_data, --drop_bad_pairs and --keep_bad_pairs. Received: "
            f"{' and '.join(given)}."
        )
    return given[0] if given else ""


def job_of(args: flags.FlagValues, values: Mapping[str, Any], problem: Problem) -> "Job | None":
    """Returns what data to make; None: they are there.

    Args:
        args: the flags.
        values: {flag: value}, what is known without being said included.
        problem: whose data.

    Raises:
        UserError: if there are flags of raw files, and no data are made, or what they name is not
            there.
    """
    options, vocabulary = raw_file_options(args), vocabulary_options(args)
    if options and not values["generate_data"]:
        raise UserError(
            f"Expected --generate_data with --{next(iter(options))}. Received: --data_dir alone, "
            "whose files are there already. Add it, or leave the other out."
        )
    if not values["generate_data"]:
        return None
    from t2t_repro.data import tfrecord
    from t2t_repro.data.job import Job

    if not tfrecord.are_there(problem.forward(), os.path.expanduser(values["data_dir"])):
        problem.forward().check_raw_files(options)
    return Job(
        problem,
        values["data_dir"],
        values["tmp_dir"],
        options=options,
        check=check_of(args, problem),
        **vocabulary,
    )
