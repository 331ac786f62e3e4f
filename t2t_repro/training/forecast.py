"""What a training run will take, as `estimate.of` finds it: for people, and as plan.json."""

import dataclasses
import json
import math

from t2t_repro.data.needs import DataNeeds, size_text
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import PLAN, RunDirectory
from t2t_repro.training import updates
from t2t_repro.training.machine import Machine

PAPERS_TOKENS = 25_000  # of each side of a batch, about (section 5.1)
_ABOUT = 0.1
_BATCHES_OF = 1024  # a batch_size that is proposed is a multiple of so many tokens
_ROOM = 0.7  # of a GPU's memory, for an estimate of what a batch takes


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """Why a machine plainly cannot do a run.

    Attributes:
        kind: what it lacks: "data", "memory", "disk" or "time".
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
        source_tokens: of an update, about, without padding.
        target_tokens: the same.
        can_be_set: whether hparam effective_batch_size may say how many it has.
    """

    size: int
    unit: str
    replicas: int
    accumulated: int
    source_tokens: int
    target_tokens: int
    can_be_set: bool = True

    @property
    def total(self) -> int:
        """Of an update."""
        return self.size * self.replicas * self.accumulated

    @property
    def mean_tokens(self) -> float:
        """Of a side of an update, without padding."""
        return (self.source_tokens + self.target_tokens) / 2

    @property
    def accumulation_of_the_paper(self) -> int:
        """How many batches of at most this size make an update of the paper's."""
        return updates.batches_for(PAPERS_TOKENS, self.mean_tokens / self.accumulated)

    @property
    def is_the_papers(self) -> bool:
        """Whether an update is about as large as the paper's."""
        return abs(self.mean_tokens / PAPERS_TOKENS - 1) < _ABOUT


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

    @property
    def device_hours(self) -> float:
        """To the end, of all GPUs; a CPU is one device, also where a run splits it."""
        return self.hours * self.machine.replicas / self.machine.sharing

    def to_json(self) -> str:
        """Returns it as JSON, for programs."""
        values = dataclasses.asdict(self)
        derived = {
            "hours": self.hours,
            "device_hours": self.device_hours,
            "training_flop": self.flop * self.steps,
        }
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
        of_all += self._beside_the_paper() if batch.unit == "tokens" else ""
        there = min((device.memory for device in machine.devices), default=0)
        room = f" of {size_text(there)}" if there else ""
        each = " on each" if machine.kind == "GPU" and machine.replicas > 1 else ""
        return {
            "data": str(self.data),
            "model": f"{about}{self.parameters:,} parameters, vocabulary of {about}{symbols}",
            "batch": of_all,
            "devices": str(machine),
            "memory": f"about {size_text(self.memory)}{room}{each}",
            "time": self._time(),
            "checkpoints": f"{self.checkpoints} x {size_text(self.checkpoint)} in {self.run}; "
            f"{size_text(self.disk_free)} are free",
        }

    def _time(self) -> str:
        if not self.steps:
            return "no step is left: the run is at its end"
        machine = self.machine
        several = machine.replicas > machine.sharing
        of_all = f" ({self.device_hours:,.0f} {machine.kind}-hours)" if several else ""
        return (
            f"{self.steps:,} steps of {_seconds(self.step_seconds)}: {span(self.hours)}{of_all}, "
            f"{self.how}; {self.flop * self.steps:.1e} FLOP"
        )

    def _beside_the_paper(self) -> str:
        """Returns how large an update is without padding, and how it gets the paper's size."""
        batch = self.batch
        real = f"; of it {batch.source_tokens:,} source and {batch.target_tokens:,} target tokens"
        if batch.is_the_papers:
            return f"{real}, the paper's {PAPERS_TOKENS:,}"
        if not (batch.can_be_set and self.steps):
            return f"{real}; the paper's are {PAPERS_TOKENS:,} of each"
        times = PAPERS_TOKENS / max(batch.mean_tokens, 1)
        if self._has_room_for(times):
            size = math.ceil(times * batch.size / _BATCHES_OF) * _BATCHES_OF
            return (
                f"{real}. For the paper's {PAPERS_TOKENS:,} of each: --hparams=batch_size={size}, "
                f"for which there should be memory, {span(self.hours * times)} at most"
            )
        return (
            f"{real}. For the paper's {PAPERS_TOKENS:,} of each: "
            f"--hparams=effective_batch_size={PAPERS_TOKENS}, "
            f"{batch.accumulation_of_the_paper} batches an update, {span(self.hours * times)}"
        )

    def _has_room_for(self, times: float) -> bool:
        """Whether a GPU holds batches so many times as large: one is faster than several small."""
        there = min((device.memory for device in self.machine.devices), default=0)
        once = self.batch.accumulated == 1 and times > 1
        return once and self.machine.kind == "GPU" and times * self.memory < _ROOM * there


def write(run: RunDirectory, forecast: Forecast) -> None:
    """Writes plan.json into a run, unless it has one: a resumed run keeps its first."""
    if not (run.path / PLAN).exists():
        write_text_atomic(run.path / PLAN, forecast.to_json())


def span(hours: float) -> str:
    """Returns a time for people: "3 minutes", "5.2 hours", "63 days" or "2.1 years"."""
    if hours < 1:
        minutes = max(1, round(60 * hours))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    if hours < 48:
        return f"{hours:.1f} hours"
    return f"{hours / 24:,.1f} days" if hours < 24 * 365 else f"{hours / 24 / 365:,.1f} years"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.1f} s"
    return f"{1000 * seconds:,.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:,.1f} ms"
