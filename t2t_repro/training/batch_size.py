"""Halves batch_size until steps on the largest batches fit into memory.

A process that runs out of memory is often killed, not told: each size has a process of its own.
"""

import dataclasses
import math
import os
import resource
import sys
from collections.abc import Callable

import numpy as np
import psutil

from t2t_repro import process, registry
from t2t_repro.config import HParams
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.run_directory import RunConfig
from t2t_repro.training.request import TrainRequest

_SHARE = 0.9  # of the free memory may be used


def find(request: TrainRequest) -> int:
    """Prints and returns the first that fits of batch_size, its half, and so on.

    Args:
        request: what to train; its data are there.

    Raises:
        UserError: if not even one token fits, or a trial ends for another reason.
    """
    room = _SHARE * min(psutil.virtual_memory().available, process.total_memory())
    hparams = request.config.hparams
    if hparams.effective_batch_size:  # however many are gathered, their sums take the same room
        gathers = "optimizer=multistep_adam,optimizer_multistep_accumulate_steps=2"
        hparams = hparams.override(gathers)
    size = hparams.batch_size
    while size:
        tried = dataclasses.replace(hparams, batch_size=size)
        config = dataclasses.replace(request.config, hparams=tried)
        try:
            peak = process.call(_peak, config, request.load_user_code)
        except process.OutOfMemory:
            peak = math.inf
        if peak <= room:
            print(f"batch_size {size:,} fits, in {peak / 2**20:,.0f} MB.")
            print(f"Give --hparams=batch_size={size}")
            return size
        print(f"batch_size {size:,} does not fit into {room / 2**20:,.0f} MB.", flush=True)
        size //= 2
    raise UserError("Expected memory for some batch_size. Received: none. Take a smaller model.")


def _peak(config: RunConfig, load_user_code: Callable[[], None] | None) -> int:
    """Makes two steps on each of the largest batches, on one device; returns the bytes it took."""
    os.environ.pop("TF_CONFIG", None)  # of a cluster, to which a trial does not belong
    if load_user_code:
        load_user_code()
    from t2t_repro.data.pipeline import describe
    from t2t_repro.training import devices, distribution, trainer

    devices.choose(1)
    problem, hparams = registry.get_problem(config.problem), config.hparams
    longest = describe(problem, Split.TRAIN, hparams, config.data_dir, training=True).longest
    rows = problem.batch_size_multiplier, problem.packed_length
    step = distribution.step_function(trainer.build_model(config, problem))
    for batch in 2 * largest_batches(hparams, longest, *rows):
        step(batch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


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
    begins, ends = [0, *scheme["boundaries"]], [*scheme["boundaries"], longest + 1]
    buckets = zip(scheme["batch_sizes"], begins, ends, strict=True)
    shapes = [(rows, min(end - 1, longest)) for rows, begin, end in buckets if begin <= longest]
    worst = {max(shapes, key=lambda s: s[0] * s[1]), max(shapes, key=lambda s: s[0] * s[1] ** 2)}
    return [dict.fromkeys(("inputs", "targets"), np.full(s, 2, "int32")) for s in sorted(worst)]
