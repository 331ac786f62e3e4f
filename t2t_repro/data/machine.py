"""What a machine that makes data must be able to do: local.py is this one, beam.py a cluster."""

import abc
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from t2t_repro.data.job import Files, Job
from t2t_repro.data.journal import Journal
from t2t_repro.problem import Problem

Track = Callable[[Iterable, str, int | None, str], Iterable]  # as `progress.track`


class Machine(contextlib.AbstractContextManager):
    """Where a job runs. Use it by `with`, for one job or several.

    Args:
        load: gives the problem of a name to another process; pickled.
    """

    def __init__(self, load: Callable[[str], Problem]):
        self.load = load

    def check(self, todo: Iterable[Files]) -> None:
        """Refuses, before the work, files that it cannot make.

        Raises:
            UserError: if there are such.
        """

    @abc.abstractmethod
    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        """Counts as `vocabulary.count_tokens` does, in the same order."""

    @abc.abstractmethod
    def make(self, job: Job, files: Files, entry: Journal, track: Track) -> dict[str, Any]:
        """Makes the files, unless there is no sample; returns `blocks.Statistics` of them.

        Args:
            job: what they belong to; its vocabulary is there.
            files: which.
            entry: how far an earlier run has come; brought up to date meanwhile.
            track: passes the samples of each stage on, and shows progress.
        """
