"""Writes a problem's vocabulary and TFRecord files, and a summary of them.

A split's samples are numbered as its source yields them, and file n % N gets sample n. The machine
that encodes them decides nothing of the bytes. The journal remembers how far this is: after a kill,
the same command goes on.
"""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

from t2t_repro import schema
from t2t_repro.data import corpus_check, journal, raw_text, records, vocabularies
from t2t_repro.data.blocks import Statistics
from t2t_repro.data.job import Files, Job
from t2t_repro.data.journal import Journal
from t2t_repro.data.local import Local
from t2t_repro.data.machine import Machine, Track
from t2t_repro.data.workers import WorkerLost
from t2t_repro.errors import UserError
from t2t_repro.files import locked, write_text_atomic

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
    others keep the order of their source. A second process waits until the first has finished with
    the same `data_dir` or `tmp_dir`.

    Args:
        job: what to make.
        machine: where; None: in this process.
        track: such as `progress.track`: passes the samples of each stage on, and shows progress.
        report: receives a line for everything that is decided on the way.

    Raises:
        UserError: if raw files are missing or broken, a split has no sample, or the text has errors
            at which `job.check` says to stop. Unfinished files are removed, unless a process was
            killed (`workers.WorkerLost`).
    """
    machine, problem = machine or Local(), job.problem
    if job.options:
        os.makedirs(job.tmp_dir, exist_ok=True)  # to lock it
        if not journal.journal_path(job).exists():  # else that says what is gone on with
            problem.keep_text(raw_text.kept(job, _read_summary(job)))
    with contextlib.ExitStack() as stack:
        if not all(map(os.path.isdir, (job.data_dir, job.tmp_dir))):
            with locked(_existing(job), report):
                problem.prepare_raw_files(job.tmp_dir, dict(job.options))
            os.makedirs(job.data_dir, exist_ok=True)  # not before the flags are known to be right
            with contextlib.suppress(OSError):  # who needs it says so
                os.makedirs(job.tmp_dir, exist_ok=True)
        # Both at once, which no two processes wait for in turn; and the text is looked at again,
        # which another may have replaced meanwhile.
        stack.enter_context(locked(_existing(job), report))
        problem.prepare_raw_files(job.tmp_dir, dict(job.options))
        job = raw_text.sized(job)
        problem = job.problem
        others = _other_sets(job)
        summary = _read_summary(job)
        machine.check(_missing(job))
        corpus_check.check_corpus(job, summary, track, report)
        begun = journal.journal_path(job).exists()
        entry = journal.resume(job, report)
        raw_text.check(job, entry, summary)
        todo = _todo(job, entry, report)
        _check_room(job, todo)
        everything = len(todo) == len(job.files())
        begins = not (entry.group or entry.finished)
        left = begins and begun and not entry.raw_files  # what was begun does not go on
        anew = vocabularies.check(
            job, everything, begins, report, left=left and not summary["splits"]
        )
        todo = [dataclasses.replace(files, total=_total(job, files)) for files in todo]
        known = None if anew else vocabularies.known(job)
        try:
            with machine:
                if anew:
                    vocabularies.remove(job)
                if todo:
                    if begins:
                        journal.announce(job)  # else a kill leaves a vocabulary of no known text
                    problem.prepare_vocabulary(
                        job.data_dir,
                        job.tmp_dir,
                        lambda texts, total: track(texts, "vocabulary", total, "texts"),
                        functools.partial(machine.count_tokens, job),
                    )
                    entry.settings = journal.settings(job)
                    entry.save(job)  # of which text the vocabulary is
                    vocabularies.say(job, known, report)
                for files in todo:
                    made_of = raw_text.entry(job, files)
                    statistics = machine.make(job, files, entry, track)
                    if not statistics["examples"]:
                        raise UserError(
                            f"Expected samples for the {' and '.join(files.splits)} split of "
                            f"{problem.name}. Received: none from {job.tmp_dir!r}."
                        )
                    entry.finish(files, statistics | made_of, job)
        except UserError as error:
            if not isinstance(error, WorkerLost):
                journal.keep_finished(entry, job)
                if begins and not entry.finished and vocabularies.known(job) != known:
                    vocabularies.remove(job)  # nothing else says of which text it is
            raise
        except KeyboardInterrupt:
            if journal.journal_path(job).exists():
                report("Interrupted. The same command goes on from here.")
            raise
        summary["splits"] |= entry.finished
        for path in others:
            os.unlink(path)
        encoders = problem.feature_encoders(job.data_dir)
        summary["vocab_size"] = {name: encoder.vocab_size for name, encoder in encoders.items()}
        summary["vocab_files"] = problem.vocab_files(job.data_dir)
        summary |= vocabularies.summary_of(job, summary)
        if entry.finished:
            summary |= {"random_seed": job.seed, **raw_text.origin(job, summary)}
            text = json.dumps(summary, indent=1) + "\n"
            write_text_atomic(vocabularies.summary_path(problem, job.data_dir), text)
        journal.discard(job)
        return summary


def _other_sets(job: Job) -> list[str]:
    """Returns the files of sets of another size, which would lie beside those to be made.

    Raises:
        UserError: if there is one, and not `overwrite`.
    """
    others = []
    for files in job.files():
        for split, paths in files.splits.items():
            sets = records.shard_sets(job.problem, split, job.data_dir)
            sets.pop(len(paths), None)
            others += [path for there in sets.values() for path in there]
    if others and not job.overwrite:
        raise UserError(
            f"Expected no files of {job.problem.name} in {job.data_dir!r} but those to be made. "
            f"Received: {os.path.basename(others[0])}, of a set of another size. Delete them, or "
            "use --overwrite."
        )
    return others


def _existing(job: Job) -> list[str]:
    return [folder for folder in (job.data_dir, job.tmp_dir) if os.path.isdir(folder)]


def _missing(job: Job) -> list[Files]:
    """Returns what a job makes, an earlier run's unfinished files among it."""
    return [f for f in job.files() if job.overwrite or not all(map(os.path.exists, f.paths))]


def _check_room(job: Job, todo: list[Files]) -> None:
    """Refuses to replace files where there is no room for those that take their place.

    A split is on the disk twice while it is shuffled; that it is as large as before is a guess.
    """
    sizes = [sum(map(os.path.getsize, filter(os.path.exists, files.paths))) for files in todo]
    needed, free = max(sizes, default=0), shutil.disk_usage(job.data_dir).free
    if free < needed:
        raise UserError(
            f"Expected room in {job.data_dir!r} for files like those that are to be replaced, "
            f"{needed / 1e6:,.1f} MB. Received: {free / 1e6:,.1f} MB free. Free some space, or "
            "give another --data_dir. Nothing was removed."
        )


def _total(job: Job, files: Files) -> int | None:
    counted = job.problem.num_samples(job.tmp_dir, files.source)
    return min(counted, job.max_cases) if counted and job.max_cases else counted


def _todo(job: Job, entry: Journal, report: Report) -> list[Files]:
    """Returns the files that are not there, or not to be kept."""
    todo = []
    for files in job.files():
        if files.name in entry.finished:
            if all(map(os.path.exists, files.paths)):
                continue
            del entry.finished[files.name]
        if files.name == entry.group or entry.overwrite or not _is_there(files, report):
            todo.append(files)
    return todo


def _is_there(files: Files, report: Report) -> bool:
    count, there = len(files.paths), sum(map(os.path.exists, files.paths))
    name = " and ".join(files.splits)
    if there == count:
        report(f"Keeping the {count} {name} files that are there; --overwrite makes them again.")
    elif there:
        report(f"Only {there} of {count} {name} files are there: making all of them again.")
    return there == count


def _read_summary(job: Job) -> dict:
    kept: dict[str, dict[str, Any]] = {}
    try:
        path = vocabularies.summary_path(job.problem, job.data_dir)
        summary = schema.read(path, dict[str, Any])
        for name, made in summary["splits"].items():
            with contextlib.suppress(ValueError):
                Statistics.of(made)
                kept[name] = {**made, "files": int(made["files"])}
        return {**summary, "splits": kept}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is replaced
        return {"problem": job.problem.name, "splits": {}}
