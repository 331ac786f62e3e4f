"""What t2t-decoder refuses: flags and decode hparams that contradict each other or do nothing."""

import dataclasses
from typing import Any

from absl import flags

from t2t_repro.errors import UserError
from t2t_repro.problem import OutputType, Problem

SOURCES = ("decode_from_file", "score_file")
_READ_BY_SCORING = ("batch_size", "shards", "shard_id")


def check(args: flags.FlagValues, settings: Any, plain: Any, problem: Problem) -> None:
    """Raises a UserError on the first thing that is refused.

    Args:
        args: the flags.
        settings: the decode hparams that the user asked for.
        plain: those of the problem, without anything asked for.
        problem: what is decoded.
    """
    _check_sources(args)
    _check_json(args, settings)
    _check_engine(args, settings)
    _check_exact(args, settings)
    _check_output(args, settings, problem)
    if args.score_file:
        _check_scoring(args, settings, plain)


def _check_sources(args: flags.FlagValues) -> None:
    wanted = [f"--{name}" for name in (*SOURCES, "decode_interactive") if getattr(args, name)]
    if len(wanted) > 1:
        raise UserError(
            f"Expected one thing to decode. Received: {' and '.join(wanted)}. Leave one out."
        )
    if args.partial_targets_file and not args.decode_from_file:
        raise UserError(
            "--partial_targets_file has a line for each one of --decode_from_file. Received: it "
            "without that. Leave it out."
        )


def _check_json(args: flags.FlagValues, settings: Any) -> None:
    """Of --output_format, --decode_json_file and what only JSON can hold."""
    if args.decode_json_file and not any(getattr(args, name) for name in SOURCES):
        raise UserError(
            "--decode_json_file works with --decode_from_file and --score_file. Received: neither. "
            "Leave it out."
        )
    jsonl = args.output_format == "jsonl"
    if jsonl and not args.decode_from_file:
        raise UserError(
            "--output_format=jsonl works with --decode_from_file. Received: no such file. Leave it "
            "out."
        )
    others = [name for name in ("decode_json_file", "decode_reference") if getattr(args, name)]
    if jsonl and others:
        raise UserError(
            f"Expected --{others[0]} with a file of translations as text. Received: it with "
            "--output_format=jsonl. Leave one of the two out."
        )
    if jsonl and settings.write_beam_scores:
        raise UserError(
            "Decode hparam write_beam_scores has no effect on JSON lines, which hold the exact "
            "scores. Received: it with --output_format=jsonl. Leave it out."
        )
    details = ("return_token_scores", "return_alignments")
    given = [name for name in details if getattr(settings, name)]
    if given and not (args.decode_from_file or args.decode_interactive):
        raise UserError(
            f"Decode hparam {given[0]} works with --decode_from_file and --decode_interactive. "
            "Received: neither. Leave it out."
        )
    to_json = jsonl or args.decode_json_file or args.decode_interactive
    if settings.return_token_scores and not to_json:
        raise UserError(
            "Decode hparam return_token_scores has no effect on a file of text. Received: "
            "--output_format=text. Add --output_format=jsonl, or --decode_json_file=FILE."
        )


def _check_engine(args: flags.FlagValues, settings: Any) -> None:
    if args.engine == "ctranslate2":
        names = ("score_file", "t2t_exact", "partial_targets_file", "ensemble")
        others = [f"--{name}" for name in names if getattr(args, name)]
        wanted = {
            "force_decode_length": settings.force_decode_length,
            "well_formed": settings.well_formed,
            "min_length_ratio": settings.min_length_ratio,  # its least length is one for a batch
            "sampling_method": settings.sampling,  # its samples depend on the neighbours
            "return_token_scores": settings.return_token_scores,  # these need the model itself
            "return_alignments": settings.return_alignments,
        }
        others += [name for name, value in wanted.items() if value]
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


def _check_exact(args: flags.FlagValues, settings: Any) -> None:
    if not args.t2t_exact:
        return
    given = [name for name in ("min_length_ratio", "max_length_ratio") if getattr(settings, name)]
    given += ["--partial_targets_file"] * bool(args.partial_targets_file)
    if given:
        raise UserError(
            "Expected what tensor2tensor's decoder does with --t2t_exact. Received: "
            f"{', '.join(given)}, which it does not read. Leave one of them out."
        )


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
    if args.partial_targets_file and settings.well_formed:
        raise UserError(
            "Expected no beginnings where the search writes whole trees by itself. Received: "
            "--partial_targets_file with the decode hparam well_formed. Leave one of them out."
        )
    if settings.return_alignments and trees and not settings.raw_output:
        raise UserError(
            f"Decode hparam return_alignments aligns words, and {problem.name} writes trees. "
            "Received: return_alignments=True. Add raw_output=True, or leave it out."
        )


def _check_scoring(args: flags.FlagValues, settings: Any, plain: Any) -> None:
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
