"""How far t2t-datagen has come: a small file from which the same command goes on after a kill.

It is replaced as a whole, and only after what it tells of is in the files. It lies in the data
directory until the run is complete.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from t2t_repro import __version__, schema
from t2t_repro.corpora import bad_pairs
from t2t_repro.data import records
from t2t_repro.data.blocks import UNSHUFFLED, Statistics
from t2t_repro.data.job import Files, Job
from t2t_repro.files import INCOMPLETE, sha256, write_text_atomic
from t2t_repro.problem import Text2TextProblem

CHOICE = "choice of pairs"  # SHA-256 of the list of those left out; None: there is none


@dataclasses.dataclass
class Journal:
    """The state of a run.

    Attributes:
        settings: what decides the bytes of the files: as it was, so it must be to go on.
        raw_files: {path in tmp_dir: [bytes, time of change]}, when this was written.
        finished: {group of splits: its entry of the summary}.
        group: the group in work, such as "train"; "": none.
        files: its files' names.
        samples: how many samples are in its unshuffled files.
        sizes: how many bytes of each of them hold these.
        statistics: of these samples.
        complete: all samples are in; the files that have their final names are done.
        overwrite: what was there before is all to be made again.
    """

    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    raw_files: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    finished: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    group: str = ""
    files: list[str] = dataclasses.field(default_factory=list)
    samples: int = 0
    sizes: list[int] = dataclasses.field(default_factory=list)
    statistics: dict[str, Any] = dataclasses.field(default_factory=dict)
    complete: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.sizes and len(self.sizes) != len(self.files) or min(self.sizes, default=0) < 0:
            raise ValueError(f"Expected a size of each file. Received: {self.sizes}.")
        for counts in (*([self.statistics] if self.statistics else []), *self.finished.values()):
            Statistics.of(counts)
        if self.samples != self.statistics.get("examples", 0):
            raise ValueError(f"Expected as many samples as were counted. Received: {self.samples}.")

    def begin(self, group: str, paths: Sequence[str]) -> None:
        """Turns to a group, of which nothing is there yet."""
        self.group, self.files = group, [os.path.basename(path) for path in paths]
        self.samples, self.sizes, self.statistics, self.complete = 0, [], {}, False

    def finish(self, files: Files, statistics: dict[str, Any], job: Job) -> None:
        """Says that a group is there."""
        choice = {CHOICE: self.settings[CHOICE]}
        self.finished[files.name] = {**statistics, "files": len(files.paths), **choice}
        self.begin("", [])
        self.save(job)

    def save(self, job: Job) -> None:
        """Replaces the file."""
        self.raw_files = raw_files(job)
        if None in self.settings.get("vocabulary", {}).values():
            self.settings = settings(job)  # a problem's own encoder builds it when it begins
        write_text_atomic(journal_path(job), json.dumps(dataclasses.asdict(self)))


def announce(job: Job) -> None:
    """Says that a run is at work that has made nothing yet, not even its vocabulary."""
    write_text_atomic(journal_path(job), json.dumps(dataclasses.asdict(Journal())))


def journal_path(job: Job) -> pathlib.Path:
    """Returns the path of the job's journal."""
    return records.journal_path(job.problem, job.data_dir)


def makes_all(job: Job) -> bool:
    """Returns whether nothing is kept that was there before the job, or the run it goes on with."""
    try:
        return job.overwrite or schema.read(journal_path(job), Journal).overwrite
    except (OSError, schema.Malformed):
        return False


def discard(job: Job) -> int:
    """Removes the journal and every unfinished file; returns the number of files."""
    if journal_path(job).exists():  # else nothing is asked of a folder that is read-only
        journal_path(job).unlink()
    pattern = f"{job.problem.dataset_filename()}-*{INCOMPLETE}"
    remains = list(pathlib.Path(job.data_dir).glob(pattern))
    for path in remains:
        path.unlink()
    return len(remains)


def keep_finished(journal: Journal, job: Job) -> None:
    """Removes every unfinished file; where groups are finished, the journal tells of them alone."""
    discard(job)
    journal.begin("", [])
    if journal.finished:
        journal.save(job)


def resume(job: Job, report: Callable[[str], None]) -> Journal:
    """Returns the journal to go on with; a new one where there is none, or it does not fit.

    Where it does not fit, what that run had finished is of the other text or settings as well: it
    is removed with the rest.
    """
    try:
        journal = schema.read(journal_path(job), Journal)
        begun = journal != Journal()
        reason = _misfit(journal, job) if begun else "it had no vocabulary yet"
        journal.overwrite |= job.overwrite
    except FileNotFoundError:
        if removed := discard(job):
            report(f"Removed {removed} unfinished files of an earlier run that was interrupted.")
        return _new(job)
    except (OSError, schema.Malformed):
        journal, reason = Journal(), "their record cannot be read"
    if not reason and not (cut := _cut(journal, job)):
        report("Going on where an earlier run was interrupted.")
        return journal
    finished = _remove_finished(journal, job) if reason else 0
    made_again = f" The {finished} that it had finished are made again." if finished else ""
    report(
        f"Not going on with the {discard(job)} unfinished files of an earlier run: "
        f"{reason or cut}.{made_again}"
    )
    if reason:
        return _new(job, journal.overwrite)
    journal.begin("", [])
    return journal


def _new(job: Job, overwrite: bool = False) -> Journal:
    return Journal(settings=settings(job), overwrite=job.overwrite or overwrite)


def settings(job: Job) -> dict[str, Any]:
    """Returns what decides the bytes of the files, but for the raw files."""
    vocabularies = {}
    for name in job.problem.vocab_files(job.data_dir):
        path = pathlib.Path(job.data_dir, name)
        vocabularies[name] = sha256(path) if path.exists() else None
    bad = bad_pairs.path_of(job.data_dir, job.problem.dataset_filename())
    return {
        "version": __version__,
        "problem": job.problem.name,
        "random_seed": job.seed,
        "max_cases": job.max_cases,
        "number of files": {
            split: len(paths) for files in job.files() for split, paths in files.splits.items()
        },
        "vocabulary": vocabularies,
        CHOICE: sha256(bad) if bad.exists() else None,
    }


def raw_files(job: Job) -> dict[str, list[int]]:
    """Returns {path: [bytes, time of change in ns]} of the raw files.

    Where the problem does not name them all, they are what lies in their folder.
    """
    paths = _named(job) or _in_the_folder(job)
    found = {os.path.relpath(path, job.tmp_dir): os.stat(path) for path in paths}
    return {name: [status.st_size, status.st_mtime_ns] for name, status in found.items()}


def _named(job: Job) -> list[str]:
    """Returns the files that the problem's splits are made of; []: it does not say that of each."""
    problem = job.problem
    splits = {files.source for files in job.files()}
    if isinstance(problem, Text2TextProblem):
        splits |= set(problem.text_alone(job.tmp_dir))
    named = [problem.raw_text_files(job.tmp_dir, split) for split in splits]
    return [path for paths in named for path in paths] if all(named) else []


def _in_the_folder(job: Job) -> Iterator[str]:
    """Yields what lies in the folder of raw files.

    Hidden folders hold none, such as .git and .venv, where it is a folder of the user's.
    """
    ours = (f"{job.problem.dataset_filename()}-", "datagen.", "vocab.")  # where data_dir is tmp_dir
    for folder, folders, names in os.walk(job.tmp_dir):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(folder, name)
            if not name.startswith(ours) and os.path.isfile(path):
                yield path


def _misfit(journal: Journal, job: Job) -> str:
    """Returns why nothing of the run can be used; "": it can."""
    for name, value in settings(job).items():
        if (before := journal.settings.get(name)) != value:
            return f"they were made with another {name} ({before}, now {value})"
    raw = raw_files(job)
    for name, status in journal.raw_files.items():
        if raw.get(name) != status:
            return f"the raw file {name} has changed since"
    return ""


def _cut(journal: Journal, job: Job) -> str:
    """Returns why what the group in work has cannot be used; "": it can."""
    for name, size in zip(journal.files, journal.sizes, strict=False):
        path = pathlib.Path(job.data_dir, name)
        spill = path.with_name(name + UNSHUFFLED)
        if journal.complete and path.exists():
            continue
        if not spill.exists() or spill.stat().st_size < size:
            return f"{spill.name} is not whole"
    return ""


def _remove_finished(journal: Journal, job: Job) -> int:
    """Removes the files that the run gave their final names; returns their number."""
    names, counts = set(journal.files), journal.settings.get("number of files", {})
    for files in job.files():
        for split in files.splits if files.name in journal.finished else ():
            sets = records.shard_sets(job.problem, split, job.data_dir)
            names.update(map(os.path.basename, sets.get(counts.get(split), [])))
    paths = [path for name in names if (path := pathlib.Path(job.data_dir, name)).exists()]
    for path in paths:
        path.unlink()
    return len(paths)
