"""Updates of a set size on whatever devices: hparam effective_batch_size, as the paper's 25,000.

A batch of batch_size tokens holds fewer, for padding counts there. How many real ones it has is
known of the data; so few batches as may be are gathered for an update (multistep_adam), and they
are made smaller until both sides together have twice effective_batch_size. What was chosen is in
the run's hparams; a run that goes on keeps it, on other devices too, of which the trainer warns.
"""

import dataclasses
import math
import statistics
from typing import Any

from t2t_repro.data import needs, tfrecord
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.data.needs import DataNeeds
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.training.request import TrainRequest

_LENGTH = 28  # tokens of a sentence where the data are not there to say it: WMT's, about
_FULL = 0.9  # of batch_size is in a batch: buckets round down, and the other side is shorter
_REAL = 0.9  # of these are no padding
_NEAR = 0.005  # of the size that is asked for
_ROUNDS = 5  # the tokens of a batch do not quite follow its size: sizes are rounded down


def choose(request: TrainRequest, replicas: int) -> TrainRequest:
    """Returns a request whose updates have the size that is asked for, if one is.

    Args:
        request: as the user put it. Where its data are not there yet, WMT's are assumed.
        replicas: how many devices share each batch.

    Raises:
        UserError: if the user says too how many batches to gather.
    """
    hparams = request.config.hparams
    wanted = hparams.effective_batch_size
    if not wanted or request.run.exists():  # which keeps what was chosen
        return request
    if hparams.optimizer_multistep_accumulate_steps:
        raise UserError(
            "Expected effective_batch_size or optimizer_multistep_accumulate_steps, which follows "
            f"from it. Received: {wanted} and {hparams.optimizer_multistep_accumulate_steps}. "
            "Leave the second out, or set effective_batch_size=0."
        )
    gathered, size = 0, hparams.batch_size
    tried: dict[float, int] = {}  # how far from what is wanted: batch_size
    for _ in range(_ROUNDS):
        real = replicas * _tokens(request, size)
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


def _tokens(request: TrainRequest, batch_size: int) -> float:
    """Returns the tokens of a side, without padding, if a device's batches were of a size."""
    other = _with(request, batch_size=batch_size)
    return statistics.mean(real_tokens(other, data_of(other)))


def data_of(request: TrainRequest) -> DataNeeds:
    """Returns what the data of a run take.

    Raises:
        UserError: if they are broken, or are not there and nothing makes them.
    """
    problem, data_dir, job = request.problem, request.config.data_dir, request.job
    if job is None:
        tfrecord.find_shards(problem, Split.TRAIN, data_dir)
        return needs.requirements(problem, data_dir, None)
    return needs.requirements(problem, data_dir, job.tmp_dir)


def real_tokens(request: TrainRequest, data: DataNeeds) -> tuple[float, float]:
    """Returns the source and the target tokens of one device's mean batch, without padding."""
    if found := _statistics(request, data):
        return found.inputs_tokens / found.batches, found.targets_tokens / found.batches
    sentences, source, target = mean_batch(request, data)
    return _REAL * sentences * source, _REAL * sentences * target


def mean_batch(request: TrainRequest, data: DataNeeds) -> tuple[float, float, float]:
    """Returns sentences and both lengths, padding included, of one device's mean batch."""
    hparams, problem = request.config.hparams, request.problem
    if found := _statistics(request, data):
        room = found.kept * (1 - found.padding)
        lengths = found.inputs_tokens / room, found.targets_tokens / room
        return found.kept / found.batches, *lengths
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=problem.batch_size_multiplier)
    length = problem.packed_length or min(_LENGTH, hparams.max_length or _LENGTH)
    bucket = sum(length >= boundary for boundary in scheme["boundaries"])
    tokens = max(1.0, _FULL * hparams.batch_size)
    fixed = hparams.use_fixed_batch_size
    return scheme["batch_sizes"][bucket] if fixed else tokens / length, length, length


def _statistics(request: TrainRequest, data: DataNeeds) -> Any:
    """Returns the SplitStatistics of the training data in batches; None: they are not there."""
    if not data.are_there:
        return None
    from t2t_repro.data.pipeline import describe

    where = (request.config.hparams, request.config.data_dir)
    found = describe(request.problem, Split.TRAIN, *where, training=True)
    return found if found.kept and found.batches else None
