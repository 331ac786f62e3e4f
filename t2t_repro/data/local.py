"""Data made on the cores of this machine.

Samples pass in blocks through the processes of workers.py, which encode them, into unshuffled
files; when all are there, each file is shuffled and gets its name. So memory holds some blocks and
one file a process, and the bytes do not depend on the number of processes.
"""

import dataclasses
import functools
import itertools
import os
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from t2t_repro import registry
from t2t_repro.data import blocks
from t2t_repro.data.job import Files, Job
from t2t_repro.data.journal import Journal
from t2t_repro.data.machine import Machine, Track
from t2t_repro.data.workers import Workers, batched
from t2t_repro.problem import Problem
from t2t_repro.text import vocabulary

_SECONDS = 5.0  # between two entries of the journal while samples are encoded


class Local(Machine):
    """This machine.

    Args:
        processes: how many encode and count; 1: this one alone.
        load: as `Machine`'s; not asked with one process.
    """

    def __init__(self, processes: int = 1, load: Callable[[str], Problem] = registry.get_problem):
        super().__init__(load)
        self._processes = processes
        self._workers = Workers(processes)

    def __exit__(self, kind, error, traceback) -> None:
        self._workers.__exit__(kind, error, traceback)

    def check(self, todo: Iterable[Files]) -> None:
        blocks.allow_open(max((len(files.paths) for files in todo), default=0))

    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for part in self._workers.map(vocabulary.count_tokens, batched(texts, blocks.TEXTS)):
            blocks.add_counts(counts, part)
        return counts

    def make(self, job: Job, files: Files, entry: Journal, track: Track) -> dict[str, Any]:
        if entry.group != files.name:
            entry.begin(files.name, files.paths)
        counted = entry.statistics
        statistics = blocks.Statistics.of(counted) if counted else blocks.Statistics()
        if not entry.complete:
            self._encode(job, files, entry, statistics, track)
        if statistics.examples:
            self._finish(job, files, track)
        return dataclasses.asdict(statistics)

    def _encode(
        self, job: Job, files: Files, entry: Journal, statistics: blocks.Statistics, track: Track
    ) -> None:
        """Writes the unshuffled files, from where the journal says."""
        problem, encode = job.problem, None
        if blocks.is_encoded_by_sample(problem):
            samples = problem.kept_samples(job.data_dir, job.tmp_dir, files.source)
            load = functools.partial(self.load, problem.name)
            encode = blocks.EncodeSamples(
                load if self._processes > 1 else lambda: problem, job.data_dir
            )
        else:
            samples = problem.generate_encoded_samples(job.data_dir, job.tmp_dir, files.source)
        samples = itertools.islice(samples, job.max_cases or None)
        samples = track(samples, files.name, files.total, "samples")
        done = entry.samples
        numbered = blocks.numbered(itertools.islice(samples, done, None), done)
        frames = blocks.MakeFrames(len(files.paths), encode)
        last = time.monotonic()
        with blocks.Spill(files.paths, entry.sizes) as spill:
            for made in self._workers.map(frames, numbered):
                spill.write(made.frames)
                statistics.merge(made.statistics)
                if time.monotonic() - last > _SECONDS:
                    self._save(job, entry, spill.flush(), statistics)
                    last = time.monotonic()
            if not statistics.examples:
                return
            sizes = spill.flush()
        for path in files.paths:  # no old file stays beside a new one
            pathlib.Path(path).unlink(missing_ok=True)
        entry.complete = True
        self._save(job, entry, sizes, statistics)

    def _finish(self, job: Job, files: Files, track: Track) -> None:
        """Shuffles the files and gives them their names."""
        todo = [path for path in files.paths if not os.path.exists(path)]
        finish = blocks.FinishFile(job.seed if files.shuffled else None, job.problem)
        done = self._workers.map(finish, todo)
        if files.shuffled:
            done = iter(track(done, f"{files.name} files", len(todo), "files"))
        for _ in done:
            pass
        for path in files.paths:  # of a file that had its name already when the run was killed
            pathlib.Path(path + blocks.UNSHUFFLED).unlink(missing_ok=True)

    def _save(
        self, job: Job, entry: Journal, sizes: list[int], statistics: blocks.Statistics
    ) -> None:
        entry.samples, entry.sizes = statistics.examples, sizes
        entry.statistics = dataclasses.asdict(statistics)
        entry.save(job)
