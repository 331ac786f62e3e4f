"""The hosts of a run, as TF_CONFIG names them: the environment variable of TensorFlow's strategies.

  TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'

It is the same on every host but for the index. Index 0, or the one of type "chief", is the chief.
"""

import dataclasses
import json
import os
from collections.abc import Mapping

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
        UserError: if it does not say who the workers are and which this one is.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return Cluster()
    try:
        config = json.loads(text)
        jobs, task = config["cluster"], config["task"]
        kind, index = task["type"], task["index"]
        addresses = [address for job in _JOBS for address in jobs.get(job, ())]
        chiefs = jobs.get("chief", ())
        known = not jobs.keys() - _JOBS and len(chiefs) < 2 and index in range(len(jobs[kind]))
        if not known or len({*addresses}) < len(addresses):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"Expected {VARIABLE} to name a chief or none, the workers, and this one by type and "
            f"index, such as {_EXAMPLE}. Received: {text!r}. Unset it to train on this host alone."
        ) from None
    return Cluster(tuple(addresses), index + len(chiefs) * (kind == "worker"))
