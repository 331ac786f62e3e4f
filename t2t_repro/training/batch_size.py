"""How large a batch may be, and how many make an update of a set size.

`find` halves batch_size until steps on the largest batches fit into memory. A process that runs out
of memory is often killed without an error, so each size gets a process of its own.

`choose` makes updates of hparam effective_batch_size on whatever devices, as the paper's of 25,000
tokens. A batch of batch_size tokens holds fewer, because padding counts there. The data tell how
many real ones it has. As few batches as possible are gathered for an update (multistep_adam), and
they are made smaller until both sides together have twice effective_batch_size. The run's hparams
record the choice. A resumed run keeps it, also on other devices, and the trainer warns.
"""

import dataclasses
import math
import os
import resource
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

from t2t_repro import process, registry
from t2t_repro.config import HParams
from t2t_repro.data import needs, tfrecord
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.data.needs import DataNeeds
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.run_directory import RunConfig
from t2t_repro.training.request import TrainRequest

_SHARE = 0.9  # of the free memory may be used
_LENGTH = 28  # tokens of a sentence where the data are not there to say it: WMT's, about
_FULL = 0.9  # of batch_size is in a batch: buckets round down, and the other side is shorter
_REAL = 0.9  # of these are no padding
_NEAR = 0.005  # of the size that is asked for
_ROUNDS = 5  # the tokens of a batch do not quite follow its size: sizes are rounded down


def find(request: TrainRequest) -> int:
    """Prints and returns the first of batch_size, its half, and so on that fits.

    Args:
        request: what to train; its data are there.

    Raises:
        UserError: if not even one token fits.
    """
    room = _SHARE * min(psutil.virtual_memory().available, process.total_memory())
    if request.config.hparams.effective_batch_size:  # the sums of however many take the same room
        gathers = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 2}
        request = _with(request, **gathers)
    size = request.config.hparams.batch_size
    while size:
        try:
            tried = _with(request, batch_size=size)
            peak = process.call(_peak, tried.config, request.load_user_code)
        except Exception as error:
            if not process.lacks_memory(error):
                raise
            peak = math.inf
        if peak <= room:
            needs = f": it needs {peak / 2**20:,.0f} MB" if peak else ""
            print(f"batch_size {size:,} fits{needs}.")
            print(f"Give --hparams=batch_size={size}")
            return size
        print(f"batch_size {size:,} does not fit.", flush=True)
        size //= 2
    raise UserError("Expected memory for batch_size=1. Received: too little. Use a smaller model.")


def _peak(config: RunConfig, load_user_code: Callable[[], None] | None) -> int:
    """Makes two steps on each of the largest batches, on one device; returns the bytes of memory
    that they took; 0: unknown, on a GPU."""
    os.environ.pop("TF_CONFIG", None)  # of a cluster, to which a trial does not belong
    if load_user_code:
        load_user_code()
    from t2t_repro.data.pipeline import describe
    from t2t_repro.training import devices, distribution, trainer

    where = devices.choose(1)
    problem, hparams = registry.get_problem(config.problem), config.hparams
    longest = describe(problem, Split.TRAIN, hparams, config.data_dir, training=True).longest
    step = distribution.step_function(trainer.build_model(config, problem))
    rows = problem.batch_size_multiplier, problem.packed_length
    for batch in 2 * largest_batches(hparams, longest, *rows):
        step(batch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 0 if where.kind == "GPU" else peak if sys.platform == "darwin" else 1024 * peak


def largest_batches(
    hparams: HParams, longest: int, length_multiplier: int = 1, packed_length: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Returns the batches that need the most memory: of the most tokens, and of the longest.

    Args:
        hparams: determine the buckets.
        longest: the longest example of the data.
        length_multiplier: of the problem.
        packed_length: of the problem, the length of its rows, instead of max_length; None: it is
            not packed.
    """
    hparams = dataclasses.replace(hparams, max_length=packed_length or hparams.max_length)
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=length_multiplier)
    longest = min(longest, (hparams.max_length or hparams.batch_size) * length_multiplier)
    begins, ends = [0, *scheme["boundaries"]], [*scheme["boundaries"], longest + 1]
    buckets = zip(scheme["batch_sizes"], begins, ends, strict=True)
    shapes = [(rows, min(end - 1, longest)) for rows, begin, end in buckets if begin <= longest]
    worst = {max(shapes, key=lambda s: s[0] * s[1]), max(shapes, key=lambda s: s[0] * s[1] ** 2)}
    return [dict.fromkeys(("inputs", "targets"), np.full(s, 2, "int32")) for s in sorted(worst)]


def choose(request: TrainRequest, replicas: int) -> TrainRequest:
    """Returns a request whose updates have the requested size, if there is one.

    Args:
        request: the user's. If its data do not exist yet, WMT's are assumed.
        replicas: how many devices share each batch.

    Raises:
        UserError: if the user also sets how many batches to gather.
    """
    hparams = request.config.hparams
    wanted = hparams.effective_batch_size
    if not wanted or request.run.exists():  # which keeps what was chosen
        return request
    if hparams.optimizer_multistep_accumulate_steps:
        raise UserError(
            f"Expected effective_batch_size={wanted} or optimizer_multistep_accumulate_steps="
            f"{hparams.optimizer_multistep_accumulate_steps}, not both. Received: both. Remove "
            "optimizer_multistep_accumulate_steps (it is computed), or set effective_batch_size=0."
        )
    gathered, size = 0, hparams.batch_size
    tried: dict[float, int] = {}  # how far from what is wanted: batch_size
    for _ in range(_ROUNDS):
        other = _with(request, batch_size=size)
        real = replicas * statistics.mean(mean_batch(other, data_of(other))[1])
        gathered = gathered or max(1, math.ceil((1 - _NEAR) * wanted / max(real, 1)))
        tried[abs(gathered * real / wanted - 1)] = size
        if min(tried) < _NEAR:
            break
        size = max(1, min(hparams.batch_size, round(size * wanted / (gathered * real))))
    chosen: dict[str, Any] = {"batch_size": tried[min(tried)]}
    if gathered > 1:
        chosen["optimizer"] = "multistep_adam"
        chosen["optimizer_multistep_accumulate_steps"] = gathered
    return _with(request, **chosen)


def _with(request: TrainRequest, **changes: Any) -> TrainRequest:
    """Returns the request with other hparams."""
    hparams = dataclasses.replace(request.config.hparams, **changes)
    config = dataclasses.replace(request.config, hparams=hparams)
    return dataclasses.replace(request, config=config)


def data_of(request: TrainRequest) -> DataNeeds:
    """Returns what the data of a run need.

    Raises:
        UserError: if they are broken, or missing and not made by the request.
    """
    problem, data_dir, job = request.problem, request.config.data_dir, request.job
    if job is None:
        tfrecord.find_shards(problem, Split.TRAIN, data_dir)
    return needs.requirements(problem, data_dir, job.tmp_dir if job else None)


def mean_batch(
    request: TrainRequest, data: DataNeeds
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Returns the mean batch of one device; without data, one of WMT's.

    Returns:
        How many sentences it has and both lengths, padding included; and its source and target
        tokens, without padding.
    """
    hparams, problem = request.config.hparams, request.problem
    if data.are_there:
        from t2t_repro.data.pipeline import describe

        where = hparams, request.config.data_dir
        found = describe(problem, Split.TRAIN, *where, training=True)
        if found.kept and found.batches:
            source, target = found.inputs_tokens, found.targets_tokens
            room = found.kept * (1 - found.padding)
            shape = found.kept / found.batches, source / room, target / room
            return shape, (source / found.batches, target / found.batches)
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=problem.batch_size_multiplier)
    length = problem.packed_length or min(_LENGTH, hparams.max_length or _LENGTH)
    sentences: float = max(1.0, _FULL * hparams.batch_size) / length
    if hparams.use_fixed_batch_size:
        sentences = scheme["batch_sizes"][sum(length >= each for each in scheme["boundaries"])]
    return (sentences, length, length), (_REAL * sentences * length,) * 2
