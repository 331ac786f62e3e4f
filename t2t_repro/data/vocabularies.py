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
    names, folder = job.problem.vocab_files(job.data_dir), pathlib.Path(job.data_dir)
    asked = job.problem.has_asked_vocabularies(folder)
    if not everything and not (asked and all((folder / name).exists() for name in names)):
        raise UserError(
            f"Expected in {job.data_dir!r} the vocabulary that its files were made with, "
            f"{' and '.join(names)}. Received: none or another. Put it "
            "back, give another --data_dir, or make everything again by --overwrite."
        )
    made, others = _known(job)[1], _others(job)
    given = bool(job.vocabularies) and not job.vocab_size  # else they are extended
    anew = job.overwrite and made is not None and not others and not given
    for name in names if asked and not anew else ():
        if (folder / name).exists():
            _check_size(job, made)
            kept = job.overwrite and not job.vocabularies
            why = "; others use it, or it was not made here" if kept else ""
            report(f"Using the vocabulary {name} that is in {job.data_dir}{why}.")
    return anew or not asked


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
    """Returns what tells that a vocabulary does not fit dev, and what to do.

    Args:
        summary: of the files.
        made: what is known of the vocabulary.
        shared: whether files of other problems have it, so that --overwrite keeps it.
    """
    train, dev = (summary["splits"].get(split, {}) for split in ("train", "dev"))
    ratios = [(_rate(dev, side) / _rate(train, side), side) for side in SIDES if _rate(train, side)]
    ratio, side = max(ratios, default=(0, ""))
    if ratio < _DEV_MORE or dev["tokens"][side] < _DEV_TOKENS:
        return []
    remedy = "dev differs from the training text, in domain or language, or its sides are swapped"
    once = round(sum(train["bytes"].values()) / train.get(REPEATED, 1))
    fits = made.supported if made else vocabulary_size.supported(once)
    if max(summary["vocab_size"].values()) > _TOO_MANY * fits:
        how = "in another --data_dir" if shared else "--overwrite"
        # --overwrite keeps what was not made here.
        remedy = (
            f"take --vocab_size={fits} {how}" if made else f"take a vocabulary of about {fits:,}"
        )
    more = f"the {side} of dev take {ratio:.2f} times the subwords of equally long training text"
    return [f"{more}: {remedy}."]


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
