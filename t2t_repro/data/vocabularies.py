"""The vocabulary in a data directory: may it be used, or made anew, and does it fit its text?"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from t2t_repro import schema
from t2t_repro.corpora.raw_record import REPEATED
from t2t_repro.data.job import Job, summary_path
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.text import vocabulary_size
from t2t_repro.text.vocabulary_size import VocabularySize

_DEV_MORE, _DEV_TOKENS = 1.15, 1000  # as many tokens more; where dev has as many
_MANY_RARE = 0.05
_TOO_MANY = 1.25  # times what the text supports


def check(job: Job, everything: bool, report: Callable[[str], None]) -> bool:
    """Checks the vocabulary that is there; returns whether it is to be made anew.

    Args:
        job: what is to be made.
        everything: whether all files are to be made.
        report: receives a line for what is used.

    Raises:
        UserError: if it is of another size than asked for, or missing or another than that of files
            that are kept.
    """
    if not job.problem.has_asked_vocabularies(job.data_dir):
        if not everything:
            raise UserError(
                f"Expected the files in {job.data_dir!r} to be made with the vocabulary that is "
                "given. Received: files made with another. Give another --data_dir, or --overwrite "
                "to make them anew."
            )
        return True
    made, others = _known(job)[1], _others(job)
    given = bool(job.vocabularies) and not job.vocab_size  # else they are extended
    anew = job.overwrite and made is not None and not others and not given
    for name in job.problem.vocab_files(job.data_dir):
        if not pathlib.Path(job.data_dir, name).exists():
            if not everything:
                raise UserError(
                    f"Expected the vocabulary {name} in {job.data_dir!r} beside the files made "
                    "with it. Received: no such file. Put it back, or make everything again by "
                    "--overwrite."
                )
        elif not anew:
            _check_size(job, made)
            kept = job.overwrite and not job.vocabularies
            why = "; others use it, or it was not made here" if kept else ""
            report(f"Using the vocabulary {name} that is in {job.data_dir}{why}.")
    return anew


def summary_of(job: Job, summary: dict[str, Any]) -> dict[str, Any]:
    """Returns what the summary says of the vocabulary and whether it fits the text."""
    name, made = _known(job)
    entry = {"file": name, **dataclasses.asdict(made)} if made else None
    messages = _warnings(summary, made, bool(_others(job)))
    return {"vocabulary": entry, "warnings": [{"message": each} for each in messages]}


def remove(job: Job) -> None:
    """Removes the vocabulary."""
    for name in job.problem.vocab_files(job.data_dir):
        for path in (name, f"{name}.json"):
            pathlib.Path(job.data_dir, path).unlink(missing_ok=True)


def _warnings(summary: dict[str, Any], made: VocabularySize | None, shared: bool) -> list[str]:
    """Returns what tells that a vocabulary does not fit, and what to do.

    Args:
        summary: of the files.
        made: what is known of the vocabulary.
        shared: whether files of other problems have it, so that --overwrite keeps it.
    """
    size = max(summary["vocab_size"].values())
    train, dev = (summary["splits"].get(split, {}) for split in ("train", "dev"))
    once = round(sum(train.get("bytes", {}).values()) / train.get(REPEATED, 1))
    fits = made.supported if made else vocabulary_size.supported(once)
    too_large, messages = size > _TOO_MANY * fits, []
    remedy = "dev differs from the training text, in domain or language, or its sides are swapped"
    if too_large:
        how = "in another --data_dir" if shared else "--overwrite"
        # --overwrite keeps what was not made here.
        remedy = (
            f"take --vocab_size={fits} {how}" if made else f"take a vocabulary of about {fits:,}"
        )
    ratios = [(_rate(dev, side) / _rate(train, side), side) for side in SIDES if _rate(train, side)]
    ratio, side = max(ratios, default=(0, ""))
    if ratio >= _DEV_MORE and dev["tokens"][side] >= _DEV_TOKENS:
        more = f"the {side} of dev take {ratio:.2f} times the subwords of equally long training"
        messages.append(f"{more} text: {remedy}.")
    if made and made.rare >= _MANY_RARE and too_large:
        rare = f"{made.rare:.0%} of the {size:,} subwords are whole words"
        messages.append(f"{rare} that occur fewer than five times: {remedy}.")
    return messages


def _rate(split: dict[str, Any], side: str) -> float:
    """Returns the tokens of a byte of text, without the ends of sentences; 0: not known."""
    size = split.get("bytes", {}).get(side)
    return (split["tokens"][side] - split["examples"]) / size if size else 0.0


def _known(job: Job) -> tuple[str, VocabularySize | None]:
    """Returns the name of a vocabulary that was built here and what is known of it; None: none."""
    for name in job.problem.vocab_files(job.data_dir):
        if size := VocabularySize.of(pathlib.Path(job.data_dir, name)):
            return name, size
    return "", None


def _others(job: Job) -> list[str]:
    """Returns the other problems whose files in the data directory have this vocabulary."""
    names, others = set(job.problem.vocab_files(job.data_dir)), []
    for path in sorted(pathlib.Path(job.data_dir).glob("datagen.*.json")):
        with contextlib.suppress(OSError, ValueError, LookupError):  # a summary only informs
            summary = schema.read(path, dict[str, Any])
            is_other = path != summary_path(job.problem, job.data_dir)
            if is_other and names.intersection(summary["vocab_files"]):
                others.append(summary["problem"])
    return others


def _check_size(job: Job, made: VocabularySize | None) -> None:
    """Refuses a vocabulary that was not made for the size that is asked for."""
    wanted = job.vocab_size
    if not wanted or (made and made.asked == wanted):
        return
    size = job.problem.feature_encoders(job.data_dir)["inputs"].vocab_size
    if size != wanted and (made or abs(size - wanted) > 0.02 * wanted):
        raise UserError(
            f"Expected a vocabulary of about {wanted:,} subwords in {job.data_dir!r}, as "
            f"--vocab_size says. Received: {size:,}. Leave --vocab_size out, give another "
            "--data_dir, or --overwrite to make it and the files anew, unless others use it."
        )
