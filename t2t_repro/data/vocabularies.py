"""The vocabulary in a data directory: may it be used, or made anew, and does it fit its text?"""

import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any

from t2t_repro import schema
from t2t_repro.corpora.raw_record import REPEATED
from t2t_repro.data.blocks import SIDES
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text import vocabulary_size
from t2t_repro.text.vocabulary_size import VocabularySize

_DEV_MORE, _DEV_TOKENS = 1.15, 1000  # as many tokens more; where dev has as many
_MANY_RARE = 0.05
_TOO_MANY = 1.25  # times what the text supports

Report = Callable[[str], None]


def summary_path(problem: Problem, data_dir: str | os.PathLike) -> pathlib.Path:
    """Returns the path of the JSON file that `generate_data` leaves beside the records."""
    return pathlib.Path(data_dir, f"datagen.{problem.dataset_filename()}.json")


def known(job: Job) -> tuple[str, VocabularySize] | None:
    """Returns the name of a vocabulary that was built here and what is known of it, or None."""
    for name in job.problem.vocab_files(job.data_dir):
        if size := VocabularySize.of(pathlib.Path(job.data_dir, name)):
            return name, size
    return None


def check(job: Job, everything: bool, stale: bool, report: Report) -> bool:
    """Checks the vocabulary that is there; returns whether it is to be made anew.

    Args:
        job: what is to be made.
        everything: whether all files are to be made.
        stale: whether it was built of other text, and no file that has it is kept.
        report: receives a line for what is used.

    Raises:
        UserError: if it is of another size than asked for, or missing beside files that it was
            used for.
    """
    if not job.problem.has_asked_vocabularies(job.data_dir):
        if not everything:
            raise UserError(
                f"Expected the files in {job.data_dir!r} to be made with the vocabulary that is "
                "given. Received: files made with another. Give another --data_dir, or --overwrite "
                "to make them anew."
            )
        return True
    alone = known(job) is not None and not _others(job)
    given = bool(job.vocabularies) and not job.vocab_size  # else they are extended
    anew = (job.overwrite or stale) and alone and not given
    for name in job.problem.vocab_files(job.data_dir):
        there = pathlib.Path(job.data_dir, name).exists()
        if not there and not everything:
            raise UserError(
                f"Expected the vocabulary {name} in {job.data_dir!r} beside the files made with "
                "it. Received: no such file. Put it back, or make everything again by --overwrite."
            )
        if there and anew:
            report(f"Making the vocabulary {name} anew; a run keeps a copy of that it began with.")
        elif there:
            _check_size(job, alone)
            kept = job.overwrite and not alone and not job.vocabularies
            why = "; others use it, or it was not made here" if kept else ""
            report(f"Using the vocabulary {name} that is in {job.data_dir}{why}.")
    return anew


def say(job: Job, before: tuple[str, VocabularySize] | None, report: Report) -> None:
    """Reports a vocabulary that was not there before, and why it has its size."""
    if (made := known(job)) and made != before:
        report(f"{made[0]}: {made[1].made:,} subwords. {made[1].reason}.")


def summary_of(job: Job, summary: dict[str, Any]) -> dict[str, Any]:
    """Returns what the summary says of the vocabulary and whether it fits the text."""
    made = known(job)
    entry = {"file": made[0], **dataclasses.asdict(made[1])} if made else None
    return {
        "vocabulary": entry,
        "warnings": _warnings(summary, made and made[1], bool(_others(job))),
    }


def remove(job: Job) -> None:
    """Removes the vocabulary."""
    for name in job.problem.vocab_files(job.data_dir):
        for path in (name, f"{name}.json"):
            pathlib.Path(job.data_dir, path).unlink(missing_ok=True)


def _warnings(
    summary: dict[str, Any], made: VocabularySize | None, shared: bool
) -> list[dict[str, Any]]:
    """Returns what tells that a vocabulary does not fit: {"kind", "message", "vocab_size"}.

    "vocab_size" is the number to take instead; None: another number would not help.

    Args:
        summary: of the files.
        made: what is known of the vocabulary.
        shared: whether files of other problems have it, so that --overwrite keeps it.
    """
    size = max(summary["vocab_size"].values())
    train, dev = (summary["splits"].get(split, {}) for split in ("train", "dev"))
    once = round(sum(_bytes(train).values()) / train.get(REPEATED, 1))
    fits = made.supported if made else vocabulary_size.supported(once)
    found: list[dict[str, Any]] = []

    def warn(kind: str, what: str, otherwise: str = "") -> None:
        wanted = fits if size > _TOO_MANY * fits else None
        how = "in another --data_dir" if shared else "--overwrite"
        smaller = f"take --vocab_size={fits} {how}"
        if not made:  # which --overwrite keeps
            smaller = f"take a vocabulary of about {fits:,}"
        mend = smaller if wanted else otherwise
        found.append({"kind": kind, "message": f"{what}: {mend}.", "vocab_size": wanted})

    ratios = {side: _rate(dev, side) / _rate(train, side) for side in SIDES if _rate(train, side)}
    ratio, side = max(((ratio, side) for side, ratio in ratios.items()), default=(0, ""))
    if ratio >= _DEV_MORE and dev["tokens"][side] >= _DEV_TOKENS:
        warn(
            "dev_subwords",
            f"the {side} of dev take {ratio:.2f} times the subwords of equally long training text",
            "dev differs from the training text, in domain or language, or its sides are swapped",
        )
    if made and made.rare >= _MANY_RARE and size > _TOO_MANY * fits:
        rare = f"{made.rare:.0%} of the {size:,} subwords are whole words"
        warn("rare_words", f"{rare} that occur fewer than five times")
    return found


def _bytes(split: dict[str, Any]) -> dict[str, int]:
    return split.get("bytes", dict.fromkeys(SIDES, 0))


def _rate(split: dict[str, Any], side: str) -> float:
    """Returns the tokens of a byte of text, without the ends of sentences; 0: not known."""
    size = _bytes(split)[side]
    return (split["tokens"][side] - split["examples"]) / size if size else 0.0


def _others(job: Job) -> list[str]:
    """Returns the other problems whose files in the data directory have this vocabulary."""
    names, others = set(job.problem.vocab_files(job.data_dir)), []
    for path in sorted(pathlib.Path(job.data_dir).glob("datagen.*.json")):
        try:
            summary = schema.read(path, dict[str, Any])
            if names.intersection(summary["vocab_files"]) and path != summary_path(
                job.problem, job.data_dir
            ):
                others.append(summary["problem"])
        except (OSError, ValueError, LookupError, TypeError):
            continue  # a summary only informs
    return others


def _check_size(job: Job, alone: bool) -> None:
    """Refuses a vocabulary that was not made for the size that is asked for."""
    wanted, made = job.vocab_size, known(job)
    if not wanted:
        return
    size = job.problem.feature_encoders(job.data_dir)["inputs"].vocab_size
    is_about = made[1].asked == wanted if made else abs(size - wanted) <= 0.02 * wanted
    if not is_about and size != wanted:
        asked = f", for --vocab_size={made[1].asked}" if made and made[1].asked else ""
        anew = ", give another --data_dir, or --overwrite to make it and the files anew"
        raise UserError(
            f"Expected a vocabulary of about {wanted:,} subwords in {job.data_dir!r}, as "
            f"--vocab_size says. Received: {size:,}{asked}. Leave --vocab_size out"
            f"{anew if alone else ' or give another --data_dir'}."
        )
