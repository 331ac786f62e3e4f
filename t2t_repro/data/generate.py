"""Writes a problem's vocabulary and TFRecord files, and datagen.PROBLEM.json, which says of what.

A split's samples are numbered as its source yields them, and file n % N gets sample n. The machine
that encodes them decides nothing of the bytes. A split is whole or made anew: after a kill the same
command ends with the same files.
"""

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

from t2t_repro import schema
from t2t_repro.data import corpus_check, raw_text, tfrecord, vocabularies
from t2t_repro.data.job import Files, Job
from t2t_repro.data.local import Local, Machine, Track
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, write_text_atomic

Report = Callable[[str], None]


def generate_data(
    job: Job,
    machine: Machine | None = None,
    *,
    track: Track = lambda items, doing, total, unit: items,
    report: Report = lambda line: None,
) -> dict:
    """Writes the files of every split that is not there yet, and returns the summary of all.

    A vocabulary file that is there is used as it is: models depend on it. To `overwrite` makes it
    anew if it was built here, for these files alone. Training files are shuffled by the seed; the
    others keep the order of their source.

    Args:
        job: what to make.
        machine: where; None: in this process.
        track: such as `progress.track`: passes the samples of each stage on, and shows progress.
        report: receives a line for everything that is decided on the way.

    Raises:
        UserError: if raw files are missing or broken, a split has no sample, the text has errors at
            which `job.check` says to stop, or files are kept that were made of other text.
    """
    machine = machine or Local()
    job.problem.prepare_raw_files(job.tmp_dir, dict(job.options))
    os.makedirs(job.data_dir, exist_ok=True)
    os.makedirs(job.tmp_dir, exist_ok=True)
    job = raw_text.sized(job)
    problem = job.problem
    summary = _read_summary(job)
    others = _other_sets(job)
    every = job.files()
    kept = [files for files in every if not job.overwrite and _is_there(files, summary, report)]
    todo = [files for files in every if files not in kept]
    raw_text.check(job, kept, summary)
    corpus_check.check_corpus(job, kept, summary, track, report)
    made_of = raw_text.entry(job, Files({}, "train", shuffled=True))
    stale = not kept and summary.get("vocabulary_of", made_of) != made_of
    anew = vocabularies.check(job, not kept, stale, report)
    todo = [dataclasses.replace(files, total=_total(job, files)) for files in todo]
    if todo:
        for path in (*others, *(path for files in todo for path in files.paths)):
            pathlib.Path(path).unlink(missing_ok=True)
        if anew:
            vocabularies.remove(job)
        known = vocabularies.known(job)
        unfinished = [files.name for files in todo]
        summary["splits"] = {k: v for k, v in summary["splits"].items() if k not in unfinished}
        summary |= {"unfinished": unfinished, "vocabulary_of": made_of}  # known after a kill, too
        _write_summary(job, summary)
        try:
            with machine:
                problem.prepare_vocabulary(
                    job.data_dir,
                    job.tmp_dir,
                    lambda texts, total: track(texts, "vocabulary", total, "texts"),
                    functools.partial(machine.count_tokens, job),
                )
                vocabularies.say(job, known, report)
                for files in todo:
                    made_of = raw_text.entry(job, files)
                    statistics = machine.make(job, files, track)
                    if not statistics["examples"]:
                        raise UserError(
                            f"Expected samples for the {' and '.join(files.splits)} split of "
                            f"{problem.name}. Received: none from {job.tmp_dir!r}."
                        )
                    made = {**statistics, "files": len(files.paths), **made_of}
                    summary["splits"][files.name] = made
                    unfinished.remove(files.name)
                    _write_summary(job, summary)
        finally:
            for left in pathlib.Path(job.data_dir).glob(
                f"{problem.dataset_filename()}-*{INCOMPLETE}"
            ):
                left.unlink()
    encoders = problem.feature_encoders(job.data_dir)
    summary["vocab_size"] = {name: encoder.vocab_size for name, encoder in encoders.items()}
    summary["vocab_files"] = problem.vocab_files(job.data_dir)
    summary |= vocabularies.summary_of(job, summary)
    if summary.pop("unfinished", None) is not None:
        summary |= {"random_seed": job.seed, **raw_text.origin(job, summary)}
        _write_summary(job, summary)
    return summary


def _other_sets(job: Job) -> list[str]:
    """Returns the files of sets of another size, which would lie beside those to be made.

    Raises:
        UserError: if there is one, and not `overwrite`.
    """
    others = []
    for files in job.files():
        for split, paths in files.splits.items():
            sets = tfrecord.shard_sets(job.problem, split, job.data_dir)
            sets.pop(len(paths), None)
            others += [path for there in sets.values() for path in there]
    if others and not job.overwrite:
        raise UserError(
            f"Expected no files of {job.problem.name} in {job.data_dir!r} but those to be made. "
            f"Received: {os.path.basename(others[0])}, of a set of another size. Delete them, or "
            "use --overwrite."
        )
    return others


def _total(job: Job, files: Files) -> int | None:
    counted = job.problem.num_samples(job.tmp_dir, files.source)
    return min(counted, job.max_cases) if counted and job.max_cases else counted


def _is_there(files: Files, summary: dict[str, Any], report: Report) -> bool:
    """Whether files are whole."""
    count, there = len(files.paths), sum(map(os.path.exists, files.paths))
    name = " and ".join(files.splits)
    if there == count and files.name not in summary.get("unfinished", ()):
        report(f"Keeping the {count} {name} files that are there; --overwrite makes them again.")
        return True
    if there:
        report(f"Only {there} of {count} {name} files are there: making all of them again.")
    return False


def _read_summary(job: Job) -> dict[str, Any]:
    """Returns what an earlier call left; tensor2tensor leaves nothing."""
    try:
        path = vocabularies.summary_path(job.problem, job.data_dir)
        summary = schema.read(path, dict[str, Any])
        if isinstance(summary.get("splits"), dict):
            return summary
    except (OSError, ValueError):  # it is replaced
        pass
    return {"problem": job.problem.name, "splits": {}}


def _write_summary(job: Job, summary: dict[str, Any]) -> None:
    path = vocabularies.summary_path(job.problem, job.data_dir)
    write_text_atomic(path, json.dumps(summary, indent=1) + "\n")
