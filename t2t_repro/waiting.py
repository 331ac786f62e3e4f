"""Waiting for the next file or checkpoint that another process writes."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

Item = TypeVar("Item")
_PAUSE = 10  # seconds between two looks


def appearing(
    find: Callable[[], Mapping[int, Item]],
    *,
    min_steps: int = 0,
    wait_minutes: float = 0,
    since: Callable[[Item], float] | None = None,
    clock: Any = time,
) -> Iterator[Item]:
    """Yields what there is by step, and what is new as it appears.

    It is looked for anew after each, for a trainer removes old checkpoints.

    Args:
        find: returns what there is: {step: item}.
        min_steps: what is of earlier steps is passed over.
        wait_minutes: for how long to wait for the next.
        since: the time of an item, from which the wait for the next is counted; None: it is
            counted from when the caller is done with it.
        clock: has `time()` and `sleep(seconds)`.
    """
    until = clock.time() + 60 * wait_minutes
    while True:
        found = {step: item for step, item in find().items() if step >= min_steps}
        if found:
            step = min(found)
            min_steps = step + 1
            yield found[step]
            done = since(found[step]) if since else clock.time()
            until = max(until, done + 60 * wait_minutes)
        elif clock.time() >= until:
            return
        else:
            clock.sleep(_PAUSE)
