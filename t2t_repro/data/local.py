"""Data made on the cores of this machine.

Samples pass in blocks through the processes of workers.py, which encode them, into unshuffled
files; when all are there, each file is shuffled and gets its name. So memory holds some blocks and
one file a process, and the bytes do not depend on the number of processes.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from t2t_repro import registry
from t2t_repro.data import blocks
from t2t_repro.data.job import Files, Job
from t2t_repro.data.workers import Workers, batched
from t2t_repro.files import naming
from t2t_repro.problem import Problem
from t2t_repro.text import vocabulary

Track = Callable[[Iterable, str, int | None, str], Iterable]  # as `progress.track`


class Machine(Protocol):
    """Where a job runs: here, or in beam.py. Used by `with`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None: ...

    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        """Counts as `vocabulary.count_tokens` does, in the same order."""

    def make(self, job: Job, files: Files, track: Track) -> dict[str, Any]:
        """Makes files, unless there is no sample; returns `blocks.Statistics` of them."""


class Local:
    """This machine.

    Args:
        processes: how many encode and count; 1: this one alone.
        load: gives the problem of a name to another process; pickled.
    """

    def __init__(self, processes: int = 1, load: Callable[[str], Problem] = registry.get_problem):
        self._load = load
        self._processes = processes
        self._workers = Workers(processes)

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self._workers.__exit__(kind, error, traceback)

    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for part in self._workers.map(vocabulary.count_tokens, batched(texts, blocks.TEXTS)):
            blocks.add_counts(counts, part)
        return counts

    def make(self, job: Job, files: Files, track: Track) -> dict[str, Any]:
        problem, encode = job.problem, None
        where = job.data_dir, job.tmp_dir, files.source
        if blocks.is_encoded_by_sample(problem):
            samples = problem.kept_samples(*where)
            load = functools.partial(self._load, problem.name)
            encode = blocks.EncodeSamples(
                load if self._processes > 1 else lambda: problem, job.data_dir
            )
        else:
            samples = problem.generate_encoded_samples(*where)
        samples = itertools.islice(samples, job.max_cases or None)
        samples = track(samples, files.name, files.total, "samples")
        frames = blocks.MakeFrames(len(files.paths), encode)
        statistics = blocks.Statistics()
        with contextlib.ExitStack() as stack:
            stack.enter_context(naming(job.data_dir))  # in the error of a full disk
            unshuffled = [
                stack.enter_context(open(path + blocks.UNSHUFFLED, "wb")) for path in files.paths
            ]
            for made in self._workers.map(frames, blocks.numbered(samples)):
                for number, content in made.frames.items():
                    unshuffled[number].write(content)
                statistics.merge(made.statistics)
        if statistics.examples:
            finish = blocks.FinishFile(job.seed if files.shuffled else None, problem)
            done = self._workers.map(finish, files.paths)
            if files.shuffled:
                done = iter(track(done, f"{files.name} files", len(files.paths), "files"))
            for _ in done:
                pass
        return dataclasses.asdict(statistics)
