"""Estimates what a training run will take, before anything of it is made.

`of` counts; `measured` puts the time of a few real steps in the place of the counted one, which
follows from the step's FLOPs (models/flops.py, training/step_time.py).
"""

import dataclasses
import math
import os
from typing import TYPE_CHECKING

from t2t_repro.config import HParams
from t2t_repro.corpora import raw_record
from t2t_repro.corpora.request import RawText
from t2t_repro.data import needs, preset, records
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.data.job import Job
from t2t_repro.data.needs import DataNeeds, size_text
from t2t_repro.errors import UserError
from t2t_repro.models import activations, parameters
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.flops import train_step_flop
from t2t_repro.names import snake_case
from t2t_repro.problem import Problem, Split, Text2TextProblem
from t2t_repro.text import vocabulary_size
from t2t_repro.training import step_time, updates
from t2t_repro.training.forecast import Batch, Forecast, Obstacle, span
from t2t_repro.training.machine import Machine
from t2t_repro.training.request import TrainRequest
from t2t_repro.training.trial import Trial

if TYPE_CHECKING:
    from t2t_repro.data.pipeline import SplitStatistics

MOST_HOURS = 14 * 24  # of what is begun without --yes
LENGTH = 28  # tokens of a sentence where the data are not there to say it: WMT's, about
_FULL = 0.9  # of batch_size is in a batch: buckets round down, and the other side is shorter
_REAL = 0.9  # of these are no padding
_PROCESS = 800 << 20  # bytes of TensorFlow itself
_FLOAT = 4  # bytes


def of(request: TrainRequest, machine: Machine) -> Forecast:
    """Returns what a run will take on a machine; nothing is made, and no step.

    Args:
        request: the run; its `job` says where the raw files are.
        machine: as `machine.examine` finds it.

    Raises:
        UserError: if data are broken, or are not there and nothing makes them.
    """
    config, plan, problem = request.config, request.plan, request.problem
    hparams = config.hparams
    data = data_of(request)
    vocabulary = _vocabulary(problem, config.data_dir, request.job)
    shape = shape_of(request, data)
    count = parameters.count(hparams, *vocabulary).total
    flop = machine.replicas * train_step_flop(hparams, shape, vocabulary[1])
    seconds = step_time.of(hparams, flop, machine)
    steps = max(0, plan.train_steps - request.run.newest_step())
    checkpoint = _FLOAT * count * parameters.copies(hparams)
    forecast = Forecast(
        hparams_set=config.hparams_set,
        problem=config.problem,
        run=str(request.run.path),
        data=data,
        parameters=count,
        vocabulary=vocabulary,
        batch=batch_of(hparams, real_tokens(request, data), machine.replicas),
        machine=machine,
        memory=_memory(request, shape, vocabulary, count, machine),
        steps=steps,
        flop=flop,
        step_seconds=seconds,
        how=step_time.described(hparams, flop, machine),
        checkpoint=checkpoint,
        checkpoints=_kept(request, steps * seconds / 3600),
        disk_free=needs.free(request.run.path)[1],
    )
    return dataclasses.replace(forecast, obstacles=_obstacles(forecast))


def again(forecast: Forecast, request: TrainRequest) -> Forecast:
    """Returns the forecast of a run whose data are there by now, with what they say.

    Args:
        forecast: what was seen before; what was measured then stays, for so much more or less work.
        request: the run.
    """
    fresh = of(request, forecast.machine)
    tried = [each for each in forecast.obstacles if each not in _obstacles(forecast)]
    if forecast.is_measured:
        seconds = forecast.step_seconds * fresh.flop / forecast.flop
        fresh = _as_measured(fresh, request, seconds, forecast.memory)
    return dataclasses.replace(
        fresh,
        data=forecast.data,
        disk_free=forecast.disk_free,
        obstacles=(*_obstacles(fresh), *tried),
    )


def data_of(request: TrainRequest) -> DataNeeds:
    """Returns what the data of a run take.

    Raises:
        UserError: if they are broken, or are not there and nothing makes them.
    """
    problem, data_dir, job = request.problem, request.config.data_dir, request.job
    if job is None:
        records.find_shards(problem, Split.TRAIN, data_dir)
        return needs.of(problem, data_dir, None)
    return needs.of(problem, data_dir, job.tmp_dir, job.options)


def real_tokens(request: TrainRequest, data: DataNeeds) -> tuple[float, float]:
    """Returns the source and the target tokens of one device's mean batch, without padding."""
    found = _statistics(request, data)
    if found:
        return found.inputs_tokens / found.batches, found.targets_tokens / found.batches
    shape = shape_of(request, data)
    return _REAL * shape.source_tokens, _REAL * shape.target_tokens


def batch_of(hparams: HParams, real: tuple[float, float], replicas: int) -> Batch:
    """Returns what an update is made of, of batches with so many tokens a side on each replica."""
    gathered = updates.gathered(hparams)
    source, target = (round(replicas * gathered * tokens) for tokens in real)
    plain = snake_case(hparams.optimizer) == "adam" and gathered == 1
    return Batch(
        size=hparams.batch_size,
        unit="sentences" if hparams.use_fixed_batch_size else "tokens",
        replicas=replicas,
        accumulated=gathered,
        source_tokens=source,
        target_tokens=target,
        can_be_set=bool(hparams.effective_batch_size) or (plain and not hparams.counts_batches),
    )


def measured(forecast: Forecast, request: TrainRequest, trial: Trial) -> Forecast:
    """Returns the forecast of a run with what a trial has measured in the place of estimates."""
    if trial.failure:
        why = Obstacle("memory", f"a step was tried, and its process ended: {trial.failure}")
        return dataclasses.replace(forecast, obstacles=(*forecast.obstacles, why))
    if not trial.step_seconds:
        return forecast
    changed = _as_measured(forecast, request, trial.step_seconds, trial.memory)
    return dataclasses.replace(changed, obstacles=_obstacles(changed))


def _as_measured(
    forecast: Forecast, request: TrainRequest, seconds: float, memory: int
) -> Forecast:
    """Returns the forecast with a step's seconds and bytes, and what follows of them."""
    return dataclasses.replace(
        forecast,
        step_seconds=seconds,
        memory=memory,
        how="by steps that were made now",
        is_measured=True,
        checkpoints=_kept(request, forecast.steps * seconds / 3600),
    )


def shape_of(request: TrainRequest, data: DataNeeds) -> BatchShape:
    """Returns the mean batch of one device: by the data, or as WMT's where they are not there."""
    hparams, problem = request.config.hparams, request.problem
    found = _statistics(request, data)
    if found:
        room = found.kept * (1 - found.padding)
        sentences = found.kept / found.batches
        return BatchShape(sentences, found.inputs_tokens / room, found.targets_tokens / room)
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=problem.batch_size_multiplier)
    length = problem.packed_length or min(LENGTH, hparams.max_length or LENGTH)
    bucket = sum(length >= boundary for boundary in scheme["boundaries"])
    if hparams.use_fixed_batch_size:
        return BatchShape(scheme["batch_sizes"][bucket], length, length)
    return BatchShape.of_tokens(max(1.0, _FULL * hparams.batch_size), length)


def _statistics(request: TrainRequest, data: DataNeeds) -> "SplitStatistics | None":
    """Returns what the training data are in the run's batches; None: they are not there."""
    if not data.are_there:
        return None
    from t2t_repro.data.pipeline import describe

    where = (request.config.hparams, request.config.data_dir)
    found = describe(request.problem, Split.TRAIN, *where, training=True)
    return found if found.kept and found.batches else None


def _vocabulary(problem: Problem, data_dir: str, job: Job | None) -> tuple[int, int]:
    """Returns the symbols of both sides, from the files or as many as the problem will make."""
    try:
        return problem.inputs_vocab_size(data_dir), problem.targets_vocab_size(data_dir)
    except UserError:
        size = problem.approx_vocab_size if isinstance(problem, Text2TextProblem) else 2**15
        if job and preset.is_for(problem):
            size = job.vocab_size or _supported(job) or size
        sides = size, getattr(problem, "approx_targets_vocab_size", size)
        return sides[::-1] if problem.was_reversed else sides


def _supported(job: Job) -> int:
    """Returns about how many subwords t2t-datagen will choose for a text; 0: it is not there."""
    raw, _ = RawText.of(job.options)
    paths: list[str] = list(job.problem.raw_text_files(job.tmp_dir, Split.TRAIN))
    if raw:
        train = [corpus for corpus in raw.corpora() if corpus.split == Split.TRAIN]
        paths = [path for corpus in train for path in corpus.paths()]
    size = round(sum(map(os.path.getsize, paths)) / raw_record.repeated(paths))
    return vocabulary_size.supported(size) if size else 0


def _memory(
    request: TrainRequest,
    shape: BatchShape,
    vocabulary: tuple[int, int],
    count: int,
    machine: Machine,
) -> int:
    """Returns about what training holds: weights, slots and gradients, and activations."""
    hparams = request.config.hparams
    held = activations.held(hparams, shape, vocabulary[1])
    gradients = parameters.gradients(hparams, *vocabulary)
    weights: float = count * parameters.copies(hparams) + gradients
    if hparams.activation_dtype != "float32":
        weights += count / 2  # what is multiplied, in that type
    process = 0 if machine.kind == "GPU" else _PROCESS
    return round(_FLOAT * machine.sharing * (held + weights) + process)


def _kept(request: TrainRequest, hours: float) -> int:
    """Returns how many checkpoints will lie on the disk at once, with the one being written."""
    plan = request.plan
    each = plan.save_checkpoints_secs
    every = plan.local_eval_frequency
    saves = math.ceil(hours * 3600 / each if each else plan.train_steps / every)
    newest = min(saves, plan.keep_checkpoint_max or saves)
    lasting = int(hours / plan.keep_checkpoint_every_n_hours)
    return max(1, newest + lasting + (newest < saves))


def _obstacles(forecast: Forecast) -> tuple[Obstacle, ...]:
    """Returns why a machine plainly cannot do it."""
    found = []
    data, machine = forecast.data, forecast.machine
    if data.missing:
        lacking = f"{data.tmp_dir} lacks {', '.join(data.missing)}, which cannot be downloaded"
        found.append(Obstacle("data", lacking))
    there = min((device.memory for device in machine.devices), default=0)
    if there and forecast.memory > there:
        needed = f"about {size_text(forecast.memory)} of memory are needed"
        found.append(Obstacle("memory", f"{needed}, and {size_text(there)} are there"))
    found += [Obstacle("disk", text) for text in _full_disks(forecast)]
    if forecast.hours > MOST_HOURS:
        found.append(Obstacle("time", f"it would take {span(forecast.hours)}"))
    return tuple(found)


def _full_disks(forecast: Forecast) -> list[str]:
    """Returns which file systems have no room for data and checkpoints."""
    data = forecast.data
    wanted = {
        data.tmp_dir: data.raw_disk,
        data.data_dir: data.data_disk,
        forecast.run: forecast.checkpoint * forecast.checkpoints,
    }
    systems: dict[int, tuple[int, int, list[str]]] = {}
    for folder, size in wanted.items():
        if size:
            number, room = needs.free(folder)
            before, _, folders = systems.get(number, (0, 0, []))
            systems[number] = (before + size, room, [*folders, folder])
    return [
        f"about {size_text(size)} of disk are needed in {' and '.join(folders)}, and "
        f"{size_text(room)} are free"
        for size, room, folders in systems.values()
        if size > room
    ]
