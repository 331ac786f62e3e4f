"""What a training run will take, said before anything of it is made.

`of` counts and estimates; `measured` puts the time of a few real steps in the estimate's place. How
far a machine comes is in its matrix products: a step's FLOPs (models/flops.py) at a share of the
rate at which the machine multiplies.
"""

import dataclasses
import json
import math

from t2t_repro.data import needs, records
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.data.needs import DataNeeds, size_text
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.models import parameters
from t2t_repro.models.flops import BatchShape, train_step_flop
from t2t_repro.problem import Problem, Split, Text2TextProblem
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.machine import Machine
from t2t_repro.training.request import TrainRequest
from t2t_repro.training.trial import Trial

FILE = "plan.json"
PAPERS_TOKENS = 25_000  # target tokens of a batch, about (section 5.1)
MOST_HOURS = 30 * 24  # of what is begun without --yes
LENGTH = 28  # tokens of a sentence where the data are not there to say it: WMT's, about
_FULL = 0.9  # of batch_size is in a batch: buckets round down, and the other side is shorter
# The share of a CPU's products that a step reaches, by width: benchmarks/RESULTS.md.
_SHARES = {64: 0.25, 128: 0.40, 256: 0.60, 512: 0.72, 1024: 0.80}
_GPU_SHARE = 0.35  # an assumption, until steps are measured
_PROCESS = 700 << 20  # bytes of TensorFlow itself
_FLOAT = 4  # bytes


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """Why a machine plainly cannot do a run.

    Attributes:
        kind: what it lacks: "data", "memory", "disk", "time", or "step", which was tried.
        text: for people.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """What one update of the weights is made of.

    Attributes:
        size: hparams.batch_size.
        unit: what it counts, "tokens" (padding included) or "sentences".
        replicas: devices, each of which has so many.
        accumulated: batches that make one update.
    """

    size: int
    unit: str
    replicas: int
    accumulated: int

    @property
    def total(self) -> int:
        """Of an update."""
        return self.size * self.replicas * self.accumulated

    @property
    def accumulation_of_the_paper(self) -> int:
        """How many batches would make an update of the paper's size."""
        return max(1, round(PAPERS_TOKENS / (self.size * self.replicas)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a run will take.

    Attributes:
        hparams_set: the configuration's name.
        problem: the problem's.
        run: the run directory.
        data: what the data will take.
        parameters: of the model.
        vocabulary: symbols of the inputs and of the targets; estimated where `data` are not there.
        batch: what an update is made of.
        machine: on which.
        memory: bytes that the process, on GPUs each of them, will need.
        steps: that are left.
        flop: floating-point operations of a step on all devices.
        step_seconds: of one step.
        how: how these seconds are known.
        is_measured: whether by steps that were made.
        checkpoint: bytes of one.
        checkpoints: how many will lie on the disk at once.
        disk_free: bytes, where the run will be.
        obstacles: why this machine plainly cannot do it; (): it can.
    """

    hparams_set: str
    problem: str
    run: str
    data: DataNeeds
    parameters: int
    vocabulary: tuple[int, int]
    batch: Batch
    machine: Machine
    memory: int
    steps: int
    flop: float
    step_seconds: float
    how: str
    is_measured: bool = False
    checkpoint: int
    checkpoints: int
    disk_free: int
    obstacles: tuple[Obstacle, ...] = ()

    def lacks(self, kind: str) -> bool:
        """Whether that is an obstacle."""
        return any(obstacle.kind == kind for obstacle in self.obstacles)

    @property
    def hours(self) -> float:
        """To the end, without evaluations."""
        return self.steps * self.step_seconds / 3600

    def to_json(self) -> str:
        """Returns it as JSON, for programs."""
        values = dataclasses.asdict(self)
        derived = {"hours": self.hours, "training_flop": self.flop * self.steps}
        paper = {"papers_tokens": PAPERS_TOKENS}
        if self.batch.unit == "tokens":
            paper["accumulation_of_the_paper"] = self.batch.accumulation_of_the_paper
        return json.dumps(values | derived | {"batch": values["batch"] | paper}, indent=1) + "\n"

    def __str__(self) -> str:
        return "\n".join(f"  {name:<12} {text}" for name, text in self._lines().items())

    def _lines(self) -> dict[str, str]:
        batch, machine = self.batch, self.machine
        shared = len(set(self.vocabulary)) == 1
        symbols = f"{self.vocabulary[0]:,}" + ("" if shared else f" and {self.vocabulary[1]:,}")
        about = "" if self.data.are_there else "about "
        updates = f" x {batch.accumulated} batches" if batch.accumulated > 1 else ""
        of_all = f"{batch.size:,} {batch.unit} x {batch.replicas} {machine.kind}{updates}"
        of_all += f" = {batch.total:,} an update"
        of_all += self._beside_the_paper()
        there = min((device.memory for device in machine.devices), default=0)
        room = f" of {size_text(there)}" if there else ""
        each = " on each" if machine.kind == "GPU" and machine.replicas > 1 else ""
        return {
            "data": str(self.data),
            "model": f"{about}{self.parameters:,} parameters, vocabulary of {about}{symbols}",
            "batch": of_all,
            "devices": str(machine),
            "memory": f"about {size_text(self.memory)}{room}{each}",
            "time": f"{self.steps:,} steps of {_seconds(self.step_seconds)}: "
            f"{span(self.hours)}, {self.how}; {self.flop * self.steps:.1e} FLOP",
            "checkpoints": f"{self.checkpoints} x {size_text(self.checkpoint)} in {self.run}; "
            f"{size_text(self.disk_free)} are free",
        }

    def _beside_the_paper(self) -> str:
        """Returns what the paper's batch is, and how to make one of its size."""
        batch, batches = self.batch, self.batch.accumulation_of_the_paper
        if batch.unit != "tokens":
            return ""
        if batches in (1, batch.accumulated):
            return f"; the paper's {PAPERS_TOKENS:,}"
        hours = self.hours * batches / batch.accumulated
        return (
            f"; the paper's {PAPERS_TOKENS:,}: --hparams=optimizer=multistep_adam,"
            f"optimizer_multistep_accumulate_steps={batches} and --train_steps="
            f"{self.steps * batches // batch.accumulated}, {span(hours)}"
        )


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
    job = request.job
    if job is None:
        records.find_shards(problem, Split.TRAIN, config.data_dir)
        data = needs.of(problem, config.data_dir, None)
    else:
        data = needs.of(problem, config.data_dir, job.tmp_dir, job.options)
    vocabulary = _vocabulary(problem, config.data_dir)
    shape = shape_of(request, data)
    count = parameters.count(hparams, *vocabulary).total
    flop = machine.replicas * train_step_flop(hparams, shape, vocabulary[1])
    share = _GPU_SHARE if machine.kind == "GPU" else share_of(hparams.hidden_size)
    seconds = flop / machine.replicas / (machine.rate_of_a_replica * share)
    steps = max(0, plan.train_steps - newest_step(request.run))
    checkpoint = _FLOAT * count * parameters.copies(hparams)
    forecast = Forecast(
        hparams_set=config.hparams_set,
        problem=config.problem,
        run=str(request.run.path),
        data=data,
        parameters=count,
        vocabulary=vocabulary,
        batch=Batch(
            size=hparams.batch_size,
            unit="sentences" if hparams.use_fixed_batch_size else "tokens",
            replicas=machine.replicas,
            accumulated=hparams.optimizer_multistep_accumulate_steps or 1,
        ),
        machine=machine,
        memory=_memory(request, shape, vocabulary, count, machine),
        steps=steps,
        flop=flop,
        step_seconds=seconds,
        how=f"by {flop / 1e12:,.3g} TFLOP a step at {share:.2f} of the {machine.rate / 1e9:,.0f} "
        f"GFLOP/s of {'each' if machine.kind == 'GPU' else 'its'} matrix products, measured now",
        checkpoint=checkpoint,
        checkpoints=_kept(request, steps * seconds / 3600),
        disk_free=needs.free(request.run.path)[1],
    )
    return dataclasses.replace(forecast, obstacles=_obstacles(forecast))


def measured(forecast: Forecast, trial: Trial) -> Forecast:
    """Returns the forecast with what a trial has measured in the place of what was estimated."""
    if trial.failure:
        why = Obstacle("step", f"a step was tried, and did not come to an end: {trial.failure}")
        return dataclasses.replace(forecast, obstacles=(*forecast.obstacles, why))
    changed = dataclasses.replace(
        forecast,
        step_seconds=trial.step_seconds,
        memory=trial.memory,
        how="by steps that were made now",
        is_measured=True,
    )
    return dataclasses.replace(changed, obstacles=_obstacles(changed))


def write(run: RunDirectory, forecast: Forecast) -> None:
    """Writes plan.json into a run, unless it has one: a resumed run keeps its first."""
    if not (run.path / FILE).exists():
        write_text_atomic(run.path / FILE, forecast.to_json())


def newest_step(run: RunDirectory) -> int:
    """Returns the step of the newest checkpoint by its name; 0: there is none."""
    names = (path.name.removeprefix("ckpt-") for path in run.checkpoints_dir.glob("ckpt-*"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def share_of(width: int) -> float:
    """Returns which share of a CPU's products a step of a model so wide reaches."""
    widths = list(_SHARES)
    if width <= widths[0]:
        return _SHARES[widths[0]] * width / widths[0]
    for low, high in zip(widths, widths[1:], strict=False):
        if width <= high:
            part = math.log(width / low) / math.log(high / low)
            return _SHARES[low] + part * (_SHARES[high] - _SHARES[low])
    return _SHARES[widths[-1]]


def shape_of(request: TrainRequest, data: DataNeeds) -> BatchShape:
    """Returns the mean batch of one device: by the data, or as WMT's where they are not there."""
    hparams, problem = request.config.hparams, request.problem
    if data.are_there:
        from t2t_repro.data.pipeline import describe

        where = (hparams, request.config.data_dir)
        found = describe(problem, Split.TRAIN, *where, training=True)
        if found.kept and found.batches:
            room = found.kept * (1 - found.padding)
            sentences = found.kept / found.batches
            return BatchShape(sentences, found.inputs_tokens / room, found.targets_tokens / room)
    scheme = hparams_to_batching_scheme(hparams, length_multiplier=problem.batch_size_multiplier)
    length = min(LENGTH, problem.packed_length or hparams.max_length or LENGTH)
    bucket = sum(length >= boundary for boundary in scheme["boundaries"])
    if hparams.use_fixed_batch_size:
        return BatchShape(scheme["batch_sizes"][bucket], length, length)
    return BatchShape.of_tokens(max(1.0, _FULL * hparams.batch_size), length)


def span(hours: float) -> str:
    """Returns a time for people: "3 minutes", "5.2 hours", "63 days" or "2.1 years"."""
    if hours < 1:
        minutes = max(1, round(60 * hours))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    if hours < 48:
        return f"{hours:.1f} hours"
    return f"{hours / 24:,.1f} days" if hours < 24 * 365 else f"{hours / 24 / 365:,.1f} years"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{1000 * seconds:,.0f} ms"


def _vocabulary(problem: Problem, data_dir: str) -> tuple[int, int]:
    """Returns the symbols of both sides, from the files or as many as the problem will make."""
    try:
        return problem.inputs_vocab_size(data_dir), problem.targets_vocab_size(data_dir)
    except UserError:
        size = problem.approx_vocab_size if isinstance(problem, Text2TextProblem) else 2**15
        sides = size, getattr(problem, "approx_targets_vocab_size", size)
        return sides[::-1] if problem.was_reversed else sides


def _memory(
    request: TrainRequest,
    shape: BatchShape,
    vocabulary: tuple[int, int],
    count: int,
    machine: Machine,
) -> int:
    """Returns about what training holds: weights, slots and gradients, and activations."""
    hparams = request.config.hparams
    depth, filters, heads = hparams.hidden_size, hparams.filter_size, hparams.num_heads
    source, target = shape.source_tokens, shape.target_tokens
    own = heads * shape.source_length * 3
    encoder = hparams.encoder_layers * source * (10 * depth + 2 * filters + own)
    crossed = heads * (shape.source_length + shape.target_length) * 3
    decoder = hparams.decoder_layers * target * (16 * depth + 2 * filters + crossed)
    held = encoder + decoder + 2 * target * vocabulary[1]
    weights = count * (1 + parameters.copies(hparams))
    parts = 1 if machine.kind == "GPU" else machine.replicas
    process = 0 if machine.kind == "GPU" else _PROCESS
    return round(_FLOAT * parts * (held + weights) + process)


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
