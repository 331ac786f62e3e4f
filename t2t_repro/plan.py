"""What a training run will take, before it begins, and whether this machine can do it.

The seconds of a step follow from the operations of its matrix products and the rate at which the
machine multiplies, measured now.
"""

import dataclasses
import json
import math
import statistics
import time
from typing import Any

from keras import ops

from t2t_repro.config import HParams, snake_case
from t2t_repro.data import needs, preset
from t2t_repro.data.needs import DataNeeds, size_text
from t2t_repro.errors import UserError
from t2t_repro.models import parameters
from t2t_repro.problem import Text2TextProblem
from t2t_repro.progress import duration
from t2t_repro.text import vocabulary_size
from t2t_repro.training import batch_size, devices, trainable
from t2t_repro.training.devices import Devices
from t2t_repro.training.request import TrainRequest

_PAPERS_TOKENS = 25_000  # of each side of a batch, about (section 5.1)
MOST_HOURS = 14 * 24  # of what is begun without --yes
_INSTEAD = "A smaller training: t2t-trainer --hparams_set=transformer_multi30k --train_steps=10000"
_PROCESS = 800 << 20  # bytes of TensorFlow itself
# The share of a CPU's products that a step reaches, by width: benchmarks/RESULTS.md.
_SHARES = {64: 0.25, 128: 0.40, 256: 0.60, 512: 0.72, 1024: 0.80}
# On a GPU a layer is many small operations, each of which takes its time however small it is.
_GPU_SHARE, _GPU_LAYER = 0.58, 0.55e-3
_SECONDS = 1.0, 0.5  # of warm-up, because threads share a core at first, and of measurement
_BRIEF = 1 / 60  # hours of a run that one product measures well enough


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine of a run.

    Attributes:
        devices: in words.
        memory: bytes of the smallest; a CPU's is that of the machine; 0: unknown.
        kind: "GPU" or "CPU".
        replicas: how many devices, or virtual ones, share each batch, of all workers.
        sharing: how many of these share one device: virtual devices of a CPU.
        rate: FLOP/s of one device's matrix products, in the precision of the model.
    """

    devices: str
    memory: int
    kind: str
    replicas: int
    sharing: int
    rate: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a run will take: sizes in bytes, `flop` and `step_seconds` of a step on all devices.

    `vocabulary` is estimated without data; `batch` describes an update, its tokens without padding;
    `memory` is that of each device; `checkpoints` is their number on the disk at once; `steps` are
    the remaining ones.
    """

    hparams_set: str
    problem: str
    run: str
    data: DataNeeds
    parameters: int
    vocabulary: tuple[int, int]
    batch: dict[str, Any]
    machine: Machine
    memory: int
    steps: int
    flop: float
    step_seconds: float
    checkpoint: int
    checkpoints: int
    disk_free: int

    @property
    def hours(self) -> float:
        """Hours to the end, without evaluations."""
        return self.steps * self.step_seconds / 3600

    def to_json(self) -> str:
        """Returns it as JSON, for programs."""
        derived = {"hours": self.hours, "training_flop": self.flop * self.steps}
        values = dataclasses.asdict(self) | derived | {"lacks": lacks(self)}
        return json.dumps(values, indent=1) + "\n"

    def __str__(self) -> str:
        batch, machine = self.batch, self.machine
        about = "" if self.data.are_there else "about "
        symbols = " and ".join(f"{size:,}" for size in dict.fromkeys(self.vocabulary))
        each = f"{batch['size']:,} {batch['unit']} x {batch['replicas']} {machine.kind}"
        each += f" x {batch['accumulated']} batches" if batch["accumulated"] > 1 else ""
        total = batch["size"] * batch["replicas"] * batch["accumulated"]
        room = f" of {size_text(machine.memory)}" if machine.memory else ""
        lines = {
            "data": self.data,
            "model": f"{about}{self.parameters:,} parameters, vocabulary of {about}{symbols}",
            "batch": f"{each} = {total:,} an update: {batch['source_tokens']:,} source and "
            f"{batch['target_tokens']:,} target tokens, unpadded (paper: {_PAPERS_TOKENS:,} each)",
            "devices": machine.devices,
            "memory": f"about {size_text(self.memory)}{room}",
            "time": f"{self.steps:,} steps of {float(f'{self.step_seconds:.3g}'):,g} s: "
            f"{duration(3600 * self.hours)}; {self.flop / 1e12:,.3g} TFLOP a step, and "
            f"{machine.rate / 1e9:,.0f} GFLOP/s in matrix products per device, measured now",
            "checkpoints": f"{self.checkpoints} x {size_text(self.checkpoint)} in {self.run}; "
            f"{size_text(self.disk_free)} are free",
        }
        return "\n".join(f"  {name:<12} {text}" for name, text in lines.items())


def look_ahead(request: TrainRequest, where: Devices) -> TrainingPlan | None:
    """Prints the plan of a run, and returns it; None: the run resumes from a checkpoint.

    Of several workers only the chief plans, and it refuses nothing.

    Raises:
        UserError: if this machine cannot do it; the error has an alternative.
    """
    wishes = request.plan_flags
    if request.schedule == "evaluate" or not where.cluster.is_chief:
        return None
    if not wishes or request.run.newest_step() and not wishes.plan:
        print(f"Training on {devices.names(where)}.", flush=True)
        return None
    plan = make(request, examine(where, request.config.hparams, seconds=(0, 0)))
    plan = make(request, examine(where, request.config.hparams)) if plan.hours > _BRIEF else plan
    print(f"{plan.hparams_set} on {plan.problem}:\n{plan}", flush=True)
    if not (found := lacks(plan)):
        return plan
    problem, instead = request.problem.forward(), _INSTEAD
    if "data" in found and problem.raw_file_flags:
        made = f"--problem={problem.name} --data_dir={request.config.data_dir}"
        flags = " ".join(problem.raw_file_flags)
        instead = f"Make the data: t2t-datagen {made} {flags}, {problem.raw_file_hint}."
    why = f"{'; '.join(found.values())}. {instead}"
    if wishes.plan or wishes.yes or where.cluster.size > 1:
        print(f"This machine is not fit for this training: {why}", flush=True)
        return plan
    raise UserError(f"Expected a machine fit for this training, or --yes to try. Received: {why}")


def examine(where: Devices, hparams: HParams, seconds: tuple[float, float] = _SECONDS) -> Machine:
    """Returns the machine of a run; its products are measured, each of `seconds` at least once."""
    size = {"CPU": 2048, "GPU": 8192}[where.kind]  # work for some 50 milliseconds
    a = ops.ones((size, size), hparams.activation_dtype)
    for least in seconds:
        taken: list[float] = []
        while not taken or sum(taken) < least:
            start = time.perf_counter()
            # A part of the product on the host: it waits until all is computed.
            ops.convert_to_numpy(ops.cast(ops.matmul(a, a)[:1, :1], "float32"))
            taken.append(time.perf_counter() - start)
    return Machine(
        devices=devices.names(where),
        memory=min((memory for _, memory in devices.found(where)), default=0),
        kind=where.kind,
        replicas=where.replicas,
        sharing=1 if where.kind == "GPU" else where.local,
        rate=2 * size**3 / statistics.median(taken),
    )


def make(request: TrainRequest, machine: Machine) -> TrainingPlan:
    """Returns the plan of a run on a machine, without making anything.

    Raises:
        UserError: as `batch_size.choose`; if data are broken, or missing and not made by the
            request.
    """
    request = batch_size.choose(request, machine.replicas)
    config, hparams = request.config, request.config.hparams
    data = batch_size.data_of(request)
    vocabulary = _vocabulary(request, data)
    shape, real = batch_size.mean_batch(request, data)
    count = parameters.count(hparams, *vocabulary).total
    flop = machine.replicas * parameters.train_step_flop(hparams, vocabulary[1], *shape)
    batches = trainable.batches_per_step(hparams)
    seconds = batches * _step_seconds(hparams, flop, machine)
    steps = max(0, request.plan.train_steps - request.run.newest_step())
    checkpoint = 4 * count * _copies(hparams)
    gathered = trainable.gathered(hparams)
    source, target = (round(machine.replicas * gathered * tokens) for tokens in real)
    held = _held(hparams, vocabulary[1], *shape)
    return TrainingPlan(
        hparams_set=config.hparams_set,
        problem=config.problem,
        run=str(request.run.path),
        data=data,
        parameters=count,
        vocabulary=vocabulary,
        batch={
            "size": hparams.batch_size,
            "unit": "sentences" if hparams.use_fixed_batch_size else "tokens",
            "replicas": machine.replicas,
            "accumulated": gathered,
            "source_tokens": source,
            "target_tokens": target,
        },
        machine=machine,
        memory=round(
            machine.sharing * (checkpoint + 4 * count + held) + _PROCESS * (machine.kind == "CPU")
        ),
        steps=steps,
        flop=batches * flop,
        step_seconds=seconds,
        checkpoint=checkpoint,
        checkpoints=_kept(request, steps * seconds / 3600),
        disk_free=needs.free(request.run.path)[1],
    )


def lacks(plan: TrainingPlan) -> dict[str, str]:
    """Returns what a machine lacks for a run, of "data", "memory", "disk" and "time"."""
    data, machine, found = plan.data, plan.machine, {}
    if data.missing:
        missing = ", ".join(data.missing)
        found["data"] = f"{data.tmp_dir} lacks {missing}, which you have to provide"
    if machine.memory and plan.memory > machine.memory:
        needed = f"the run needs about {size_text(plan.memory)} of memory"
        there = f"this machine has {size_text(machine.memory)}"
        found["memory"] = f"{needed}, and {there} (--find_batch_size finds a size that fits)"
    checkpoints = plan.checkpoint * plan.checkpoints
    wanted = {data.tmp_dir: data.raw_disk, data.data_dir: data.data_disk, plan.run: checkpoints}
    systems = {folder: needs.free(folder) for folder, size in wanted.items() if size}
    for system, free in set(systems.values()):
        folders = [folder for folder in systems if systems[folder][0] == system]
        size = sum(wanted[folder] for folder in folders)
        if size > free:
            needed = f"the run needs about {size_text(size)} of disk in {' and '.join(folders)}"
            found["disk"] = f"{needed}, and {size_text(free)} are free; try --keep_checkpoint_max=1"
    if plan.hours > MOST_HOURS:
        found["time"] = f"the run would take {duration(3600 * plan.hours)}"
    return found


def _step_seconds(hparams: HParams, flop: float, machine: Machine) -> float:
    """Returns the seconds of a batch that takes `flop` operations on all devices of a machine."""
    of_each = flop * machine.sharing / machine.replicas / machine.rate
    if machine.kind == "GPU":
        return of_each / _GPU_SHARE + _GPU_LAYER * (hparams.encoder_layers + hparams.decoder_layers)
    near = min(_SHARES, key=lambda width: abs(math.log(width / hparams.hidden_size)))
    return of_each / _SHARES[near]


def _vocabulary(request: TrainRequest, data: DataNeeds) -> tuple[int, int]:
    """Returns the numbers of symbols of both sides, from the files or an estimate."""
    problem, data_dir, job = request.problem, request.config.data_dir, request.job
    try:
        return problem.inputs_vocab_size(data_dir), problem.targets_vocab_size(data_dir)
    except UserError:
        size = problem.approx_vocab_size if isinstance(problem, Text2TextProblem) else 2**15
    if job and preset.is_for(problem) and not data.missing:
        text = preset.text_of(problem, data_dir, str(job.tmp_dir))
        size = (
            job.vocab_size or (text and text.size and vocabulary_size.supported(text.size)) or size
        )
    sides = size, getattr(problem, "approx_targets_vocab_size", size)
    return sides[::-1] if problem.was_reversed else sides


def _copies(hparams: HParams) -> int:
    """Returns how many values a checkpoint has for each parameter, with the optimizer's."""
    factored = snake_case(hparams.optimizer) == "adafactor"
    gathers = hparams.optimizer_multistep_accumulate_steps > 0
    return 1 + (hparams.ema_decay > 0) + (not factored) * (2 + gathers)


def _held(
    hparams: HParams, vocab_size: int, sentences: float, source_length: float, target_length: float
) -> float:
    """Returns about how many bytes a step of a Transformer keeps for its backward pass."""
    layers = hparams.encoder_layers * source_length + 1.5 * hparams.decoder_layers * target_length
    scores = 3 * hparams.num_heads * max(source_length, target_length)
    of_each = layers * (10 * hparams.hidden_size + 2 * hparams.filter_size + scores)
    of_each += 2 * target_length * vocab_size
    size = 4 if hparams.activation_dtype == "float32" else 2
    return size * sentences * of_each * (2 if hparams.r_drop_alpha else 1)


def _kept(request: TrainRequest, hours: float) -> int:
    """Returns how many checkpoints will lie on the disk at once, with the one being written."""
    plan, each = request.plan, request.plan.save_checkpoints_secs
    saves = math.ceil(hours * 3600 / each if each else plan.train_steps / plan.local_eval_frequency)
    newest = min(saves, plan.keep_checkpoint_max or saves)
    return max(1, newest + int(hours / plan.keep_checkpoint_every_n_hours) + (newest < saves))
