"""Training time on N devices: matrix products, and a ring all-reduce of the gradients."""

from collections.abc import Callable
from dataclasses import dataclass

from t2t_repro import registry
from t2t_repro.models import parameters
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.flops import train_step_flop
from t2t_repro.studies.paper import published
from t2t_repro.studies.paper.hardware import Device, Hardware
from t2t_repro.studies.tables import Table, columns

LENGTH = 30  # tokens in a sentence: what WMT's have on average, about
LATENCY = 20e-6  # s for each of the 2 (N - 1) messages of a ring
BYTES = 4  # of a gradient: float32, whatever the precision of the products
_COUNTS = (1, 8, 64)
_COLUMNS = (
    "model | N | tokens a device :,.0f | compute ms :,.1f | reduce ms :,.1f | step ms :,.1f | "
    "target tokens/s :,.0f | scaling :.2f | "
)


@dataclass(frozen=True)
class Step:
    """The parts of one training step on several devices, in seconds."""

    compute: float
    all_reduce: float

    @property
    def total(self) -> float:
        """Their sum: no part of the exchange is hidden behind the products."""
        return self.compute + self.all_reduce


def all_reduce_seconds(device: Device, count: int, parameter_count: int) -> float:
    """Returns the seconds of a ring all-reduce: each device sends 2 (N - 1) / N of the bytes."""
    if count == 1:
        return 0.0
    bandwidth = device.within if count <= device.per_host else device.between
    volume = 2 * (count - 1) / count * parameter_count * BYTES
    return volume / (bandwidth * 1e9) + 2 * (count - 1) * LATENCY


def step_on(
    hardware: Hardware, hparams_set: str, tokens_a_device: float, efficiency: float | None = None
) -> Step:
    """Returns the time of a step on `tokens_a_device` source and as many target tokens."""
    hparams = registry.get_hparams(hparams_set)
    vocab_size = published.VOCABULARY["ende"]
    flop = train_step_flop(hparams, BatchShape.of_tokens(tokens_a_device, LENGTH), vocab_size)
    size = parameters.count(hparams, vocab_size).total
    efficiency = efficiency or hardware.device.efficiency_of(hparams.hidden_size)
    return Step(
        compute=flop / (hardware.device.rate * 1e12 * efficiency),
        all_reduce=all_reduce_seconds(hardware.device, hardware.count, size),
    )


def tables(hardware: Hardware, efficiency: float | None = None) -> list[Table]:
    """Returns the tables of strong and of weak scaling on 1, 8 and 64 devices.

    Args:
        hardware: the kind of device; if there is another number of them, that gets a row too.
        efficiency: the share of its rate that a training step reaches on one; None: its own.
    """
    device = hardware.device
    rate = f"{device.rate:.3g} TFLOP/s ({device.precision})"
    formulas = (
        f"One {device.name}: {rate}; {efficiency_note(device, efficiency)}. {device.source}.",
        "compute = FLOP of the tokens a device / (rate x efficiency); reduce, a ring all-reduce = "
        f"2 (N - 1) / N x {BYTES} bytes x parameters / bandwidth + 2 (N - 1) x {LATENCY * 1e6:.0f} "
        f"us; bandwidth {device.within:g} GB/s up to {device.per_host} devices (one host), "
        f"{device.between:g} GB/s beyond.",
        "step = compute + reduce (nothing overlaps); tokens/s = target tokens of the global "
        "batch / step; scaling = tokens/s / (N x tokens/s of one device).",
    )
    fixed = published.BATCH_TOKENS
    share = fixed / published.GPUS
    return [
        Table(
            "scaling-paper-batch",
            f"Scaling on {device.name}: the paper's batch of {fixed:,} tokens, divided by N",
            columns(_COLUMNS + "hours to the paper's steps :,.2f"),
            _rows(hardware, efficiency, lambda count: fixed / count),
            (
                *formulas,
                f"hours = steps x step: the paper's {_steps()}.",
                "The efficiency of one device on a large batch is assumed for a small share too.",
            ),
        ),
        Table(
            "scaling-batch-per-device",
            f"Scaling on {device.name}: {share:,.0f} tokens on each device, as T2T counts batches",
            columns(_COLUMNS + "hours to the paper's tokens :,.2f"),
            _rows(hardware, efficiency, lambda count: share),
            (
                f"hours = the paper's steps x {fixed:,} target tokens / (tokens/s). Where N is not "
                f"{published.GPUS} the batch is not the paper's, and neither is the training.",
            ),
        ),
    ]


def efficiency_note(device: Device, efficiency: float | None = None) -> str:
    """Returns the efficiency and where it is from."""
    if efficiency is not None:
        return f"efficiency {efficiency:.2f} (--efficiency)"
    sets = {training.model: training.hparams_set for training in published.TRAINING}
    widths = {name: registry.get_hparams(of).hidden_size for name, of in sets.items()}
    shares = {name: f"{device.efficiency_of(width):.2f}" for name, width in widths.items()}
    alike = len(set(shares.values())) == 1
    said = shares["base"] if alike else " and ".join(f"{s} ({name})" for name, s in shares.items())
    return f"efficiency {said} (--efficiency: {device.measured})"


def _steps() -> str:
    sets = ((t.model, registry.get_hparams(t.hparams_set)) for t in published.TRAINING)
    return ", ".join(f"{hparams.train_steps:,} ({model})" for model, hparams in sets)


def _rows(
    hardware: Hardware, efficiency: float | None, tokens_a_device: Callable[[int], float]
) -> list[tuple]:
    rows = []
    for training in published.TRAINING:
        steps = registry.get_hparams(training.hparams_set).train_steps
        alone = 0.0
        for count in sorted({*_COUNTS, hardware.count}):
            tokens = tokens_a_device(count)
            step = step_on(
                Hardware(count, hardware.device), training.hparams_set, tokens, efficiency
            )
            speed = count * tokens / step.total
            alone = alone or speed
            hours = steps * published.BATCH_TOKENS / speed / 3600
            milliseconds = (1e3 * t for t in (step.compute, step.all_reduce, step.total))
            name = training.model
            rows.append((name, count, tokens, *milliseconds, speed, speed / (count * alone), hours))
    return rows
