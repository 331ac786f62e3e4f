"""The hosts of a run, as TF_CONFIG names them: the environment variable of TensorFlow's strategies.

  TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'

It is the same on every host but for the index. Index 0, or the one of type "chief", is the chief.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from t2t_repro import schema
from t2t_repro.errors import UserError

VARIABLE = "TF_CONFIG"
_JOBS = ("chief", "worker")
_EXAMPLE = '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The worker processes of a run. One alone, the default, needs no address.

    Attributes:
        addresses: HOST:PORT of each, the chief's first.
        index: which of them this process is.
    """

    addresses: tuple[str, ...] = ("",)
    index: int = 0

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the one that writes the run directory and evaluates."""
        return self.index == 0

    def __str__(self) -> str:
        return f"worker {self.index} of {self.size}"


def from_environment(environment: Mapping[str, str] = os.environ) -> Cluster:
    """Returns the cluster of TF_CONFIG; one worker alone where it is not set.

    Raises:
        UserError: if it is not JSON, or does not say who the workers are and which this one is.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return Cluster()
    try:
        config: Any = schema.parse(text, object, VARIABLE)
    except schema.Malformed as error:
        raise UserError(
            f"Expected JSON in the environment variable {VARIABLE}, such as {_EXAMPLE}. Received: "
            f"{text!r} ({error}). Correct it, or unset it to train on this host alone."
        ) from error
    jobs = _jobs(config)
    kind, index = _task(config, jobs)
    addresses = tuple(address for job in _JOBS for address in jobs.get(job, ()))
    return Cluster(addresses, index + (len(jobs.get("chief", ())) if kind == "worker" else 0))


def _jobs(config) -> dict[str, list[str]]:
    jobs: Any = config.get("cluster") if isinstance(config, dict) else None
    addresses = [a for job in jobs.values() for a in job] if _lists_of_text(jobs) else []
    if not addresses:
        raise _wrong('a "cluster" that lists each worker as HOST:PORT', jobs)
    for job in jobs:
        if job not in _JOBS:
            raise UserError(
                f'Expected only "chief" and "worker" in the cluster of {VARIABLE}. Received: '
                f"{job!r}. The chief evaluates and there are no parameter servers: leave it out."
            )
    for address in addresses:
        if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdigit():
            raise _wrong("each worker as HOST:PORT", address)
    address, times = collections.Counter(addresses).most_common(1)[0]
    if times > 1:
        raise _wrong("a port of its own for each worker", f"{address} {times} times")
    if len(jobs.get("chief", ())) > 1:
        raise _wrong("one chief", jobs["chief"])
    return jobs


def _lists_of_text(jobs) -> bool:
    return isinstance(jobs, dict) and all(
        isinstance(job, list) and all(isinstance(address, str) for address in job)
        for job in jobs.values()
    )


def _task(config: dict, jobs: dict[str, list[str]]) -> tuple[str, int]:
    task = config.get("task")
    if not isinstance(task, dict) or "type" not in task or "index" not in task:
        raise _wrong('a "task" with "type" and "index", which say who this worker is', task)
    kind, index = task["type"], task["index"]
    if not isinstance(kind, str) or kind not in jobs:
        raise _wrong(f'a "type" that the cluster has ({" or ".join(jobs)})', kind)
    workers = len(jobs[kind])
    if type(index) is not int or not 0 <= index < workers:
        raise _wrong(f'an "index" from 0 to {workers - 1}: the cluster has {workers} {kind}', index)
    return kind, index


def _wrong(expected: str, received) -> UserError:
    return UserError(
        f"Expected in {VARIABLE} {expected}. Received: {json.dumps(received)}. An example: "
        f"{_EXAMPLE}."
    )
