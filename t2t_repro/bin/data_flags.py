"""Flags that say what data are made: shared by t2t-datagen and t2t-trainer."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem

if TYPE_CHECKING:
    from t2t_repro.data.job import Job

CHECK_FLAGS = ("check_data", "drop_bad_pairs", "keep_bad_pairs")


def define_check_flags(f: flags.FlagValues) -> None:
    """Defines `CHECK_FLAGS`."""
    check = (
        "Check the text, and write a report, also where the files are there; where they are not "
    )
    check += "that is the default for your own text."
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
    of_the_data = (*cli.VOCABULARY_FLAGS, *CHECK_FLAGS)
    cli.check_needs(args, dict.fromkeys(of_the_data, ("generate_data", "train_source")))
    cli.raw_file_options(args)
    cli.vocabulary_options(args)
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
    options, vocabulary = cli.raw_file_options(args), cli.vocabulary_options(args)
    if options and not values["generate_data"]:
        raise UserError(
            f"Expected --generate_data with --{next(iter(options))}. Received: --data_dir alone, "
            "whose files are there already. Add it, or leave the other out."
        )
    if not values["generate_data"]:
        return None
    from t2t_repro.data import records
    from t2t_repro.data.job import Job

    if not records.are_there(problem.forward(), os.path.expanduser(values["data_dir"])):
        problem.forward().check_raw_files(options)
    return Job(
        problem,
        values["data_dir"],
        values["tmp_dir"],
        options=options,
        check=check_of(args, problem),
        checks_again=bool(args.check_data),
        **vocabulary,
    )
