"""Finds the largest batch_size whose steps fit into memory, each tried in a process of its own.

A process that runs out of memory is often killed, not told; so the steps are made as
`t2t-trainer --try_batch_size=N` makes them, and the memory of the process is watched from here.
"""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t2t_repro import memory, processes
from t2t_repro.config import HParams
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.files import write_text_atomic

SECONDS = 900.0  # for all trials together
TRIAL_SECONDS = 300.0
MARK = "batch size tried: "  # before the JSON that a trial prints
_NEAR = 1.1  # the search ends when what fails is at most this much larger than what fits
_SHARE = 0.9  # of the free memory may be used
_MB = 2**20


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a batch_size took.

    Attributes:
        batch_size: tokens.
        fits: whether the steps were made within the limit.
        peak_mb: the largest memory of the process, MB; a GPU's own is not in it.
        step_seconds: the second step's time, on the largest batch; 0 where it does not fit.
        reason: why it does not fit; "" where it does.
    """

    batch_size: int
    fits: bool
    peak_mb: float = 0.0
    step_seconds: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        said = f"{self.step_seconds:.2f} s a step" if self.fits else f"does not fit: {self.reason}"
        return f"batch_size {self.batch_size:,}: {self.peak_mb:,.0f} MB, {said}"


def search(
    attempt: Callable[[int, float], Trial],
    start: int,
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> list[Trial]:
    """Tries sizes from `start` on, doubled or halved and then between; returns all trials.

    Args:
        attempt: called with a size and the seconds that are left.
        start: the first size.
        seconds: no trial begins later than this.
        clock: tells the time.
    """
    until = clock() + seconds
    trials: list[Trial] = []
    fits, fails = 0, 0
    size = start
    while size and clock() < until:
        trial = attempt(size, until - clock())
        trials.append(trial)
        if trial.fits:
            fits = size
        else:
            fails = size
        if not fails:
            size = 2 * fits
        elif not fits:
            size = fails // 2
        else:
            size = (fits + fails) // 2 if fails > _NEAR * fits else 0
    return trials


def run_trial(
    trial: Callable[[int], None],
    batch_size: int,
    limit_mb: float,
    seconds: float,
    poll: float = 0.05,
) -> Trial:
    """Makes the steps of a batch_size in a process of its own, and watches its memory.

    Args:
        trial: called with the size; prints what `report` prints.
        batch_size: the size to try.
        limit_mb: a process that holds more is killed.
        seconds: one that takes longer is killed too.
        poll: look this often, in seconds.
    """
    until, peak, reason = time.monotonic() + min(seconds, TRIAL_SECONDS), 0.0, ""

    def watch(pid: int) -> bool:
        nonlocal peak, reason
        peak = max(peak, memory.resident(pid) / _MB)
        if peak > limit_mb:
            reason = f"more than {limit_mb:,.0f} MB"
        elif time.monotonic() > until:
            reason = "no end within its time"
        return not reason

    ended = processes.run(_alone, trial, batch_size, watch=watch, every=poll)
    lines = ended.said.splitlines()
    reports = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    if reports and not reason:
        values = json.loads(reports[-1])
        if values["peak_mb"] <= limit_mb:
            return Trial(batch_size, True, values["peak_mb"], values["step_seconds"])
        peak, reason = values["peak_mb"], f"more than {limit_mb:,.0f} MB"
    return Trial(batch_size, False, peak, reason=reason or _why_it_ended(ended))


def _alone(trial: Callable[[int], None], batch_size: int) -> None:
    os.environ.pop("TF_CONFIG", None)  # of a cluster, to which a trial does not belong
    trial(batch_size)


def _why_it_ended(ended: processes.Ended) -> str:
    """Returns why a trial ended without a result, if that was for want of memory.

    Raises:
        UserError: if it was for something else: the message is that of the trial.
    """
    if reason := ended.lacked_memory():
        return reason
    last = ended.last_line() or f"exit code {ended.code}"
    raise UserError(f"Expected a trial to make its steps. Received: {last}")


def find(
    trial: Callable[[int], None], start: int, limit_mb: float, output: pathlib.Path | None
) -> Trial:
    """Finds the largest batch_size that fits, prints what it tried, and writes it as JSON.

    Args:
        trial: as `run_trial`'s.
        start: the first size to try.
        limit_mb: how much memory there is; 0: what is free.
        output: the JSON file; None: none.

    Raises:
        UserError: if not even one token fits, or a trial ends for another reason.
        Interrupted: on a signal, inside `signals.watching`. Nothing is written.
    """
    limit_mb = limit_mb or free_mb()
    print(f"Trying batch sizes within {limit_mb:,.0f} MB, for {SECONDS / 60:.0f} minutes at most.")

    done: list[Trial] = []

    def attempt(size: int, seconds: float) -> Trial:
        done.append(run_trial(trial, size, limit_mb, seconds))
        print(done[-1], flush=True)
        return done[-1]

    try:
        trials = search(attempt, start)
    except Interrupted as stop:
        where, then = f" after {len(done)} trials", "The same command begins anew."
        raise Interrupted(stop.signum, where, then) from None
    best = max((trial for trial in trials if trial.fits), key=lambda t: t.batch_size, default=None)
    content = {
        "limit_mb": round(limit_mb),
        "batch_size": best.batch_size if best else None,
        "trials": [dataclasses.asdict(trial) for trial in trials],
    }
    if output is not None:
        write_text_atomic(output, json.dumps(content, indent=1) + "\n")
    if best is None:
        raise UserError(
            f"Expected memory for some batch_size. Received: none of {len(trials)} fits, the last "
            f"was {trials[-1]}. Take a smaller model, or lower max_length."
        )
    print(f"The largest that fits: --hparams=batch_size={best.batch_size}")
    return best


def free_mb() -> float:
    """Returns how much memory a process may take: most of what machine and cgroup have free."""
    return _SHARE * memory.free() / _MB


def largest_batches(
    hparams: HParams, longest: int, length_multiplier: int = 1, packed_length: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Returns the batches that need the most memory: of the most tokens, and of the longest.

    Args:
        hparams: say what the buckets are.
        longest: the longest example of the data.
        length_multiplier: of the problem.
        packed_length: of the problem, the length of its rows in the place of max_length; None: it
            is not packed.
    """
    hparams = dataclasses.replace(hparams, max_length=packed_length or hparams.max_length)
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=length_multiplier)
    longest = min(longest, (hparams.max_length or hparams.batch_size) * length_multiplier)
    shapes = [
        (size, min(end - 1, longest))
        for size, end, begin in zip(
            scheme["batch_sizes"],
            [*scheme["boundaries"], longest + 1],
            [0, *scheme["boundaries"]],
            strict=True,
        )
        if begin <= longest
    ]
    worst = {max(shapes, key=lambda s: s[0] * s[1]), max(shapes, key=lambda s: s[0] * s[1] ** 2)}
    return [dict.fromkeys(("inputs", "targets"), np.full(s, 2, "int32")) for s in sorted(worst)]


def report(step_seconds: float) -> dict[str, Any]:
    """Prints what a trial took, its time and its largest memory, for `run_trial`; returns it."""
    values = {"peak_mb": round(memory.peak() / _MB, 1), "step_seconds": round(step_seconds, 4)}
    print(MARK + json.dumps(values), flush=True)
    return values


def flags_of_a_trial(argv: Sequence[str]) -> list[str]:
    """Returns the flags of t2t-trainer without those of the search.

    --generate_data stays, without which others of the data are refused: the files are there.
    """
    names = ("find_batch_size", "memory_limit_mb", "schedule")
    kept, skip = [], False
    for arg in argv:
        name, equals, _ = arg.lstrip("-").partition("=")
        if skip or name.removeprefix("no") in names:
            skip = not skip and not equals and name in ("memory_limit_mb", "schedule")
            continue
        kept.append(arg)
    return kept
