"""Devices: how fast they multiply matrices, and how fast they exchange gradients."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from t2t_repro.errors import UserError, unknown
from t2t_repro.studies.paper.published import SUSTAINED_TFLOPS


@dataclass(frozen=True)
class Device:
    """One device of a kind. Its rate is the sustained one where one is known, else the peak."""

    name: str
    precision: str
    peak: float | None  # TFLOP/s of dense matrix products, from the data sheet
    sustained: float | None  # TFLOP/s
    within: float  # GB/s in each direction from a device to the others of its host
    between: float  # GB/s from a host to the others
    per_host: int
    source: str
    efficiency: float  # the share of the rate that a training step has reached
    measured: str  # where and by whom
    by_width: Callable[[int], float] | None = None  # the same of a model so wide, where it is known

    def efficiency_of(self, width: int) -> float:
        """Returns the share of the rate that a step of a model so wide reaches."""
        return self.by_width(width) if self.by_width else self.efficiency

    @property
    def rate(self) -> float:
        """TFLOP/s to count with."""
        rate = self.sustained or self.peak
        assert rate is not None  # each device has one
        return rate


@dataclass(frozen=True)
class Hardware:
    """Several devices of one kind."""

    count: int
    device: Device

    def __str__(self):
        return f"{self.count}x{self.device.name}"

    def hours(self, flop: float, efficiency: float) -> float:
        """Returns the hours that `flop` operations take at a share of the devices' rate."""
        return flop / (self.count * self.device.rate * 1e12 * efficiency) / 3600


def _gpu(
    name: str,
    precision: str,
    peak: float,
    links: tuple[float, float],
    source: str,
    measured: tuple[float, str],
    by_width: Callable[[int], float] | None = None,
) -> Device:
    sustained = SUSTAINED_TFLOPS.get(name)
    return Device(name, precision, peak, sustained, *links, 8, source, *measured, by_width)


def _on_an_h200(width: int) -> float:
    """Returns what steps of 25,000 tokens of each side reached: benchmarks/RESULTS.md, "GPUs"."""
    return 0.34 if width >= 1024 else 0.26


_PAPER = "NVIDIA's data sheet; sustained: the paper's footnote 5"
_SHEET = "NVIDIA's data sheet, without sparsity"
_ON_P100 = (0.42, "the paper's own for big on 8 P100; its base has 0.29")
_ON_A100 = (0.33, "NVIDIA's for big, in mixed precision, on one A100")
_ON_H100 = (0.35, "llm-foundry's for 760 million parameters at 2,048 tokens on H100")
_ON_H200 = (_on_an_h200(1024), "this project's, in bfloat16 under JAX, on one H200")
_OLD = (16, 1.25)
DEVICES = {
    device.name: device
    for device in (
        _gpu("K80", "float32", 4.37, _OLD, _PAPER + " (one of its two GPUs)", _ON_P100),
        _gpu("K40", "float32", 4.29, _OLD, _PAPER, _ON_P100),
        _gpu("M40", "float32", 6.8, _OLD, _PAPER, _ON_P100),
        _gpu("P100", "float32", 10.6, (80, 50), _PAPER + "; links: DGX-1", _ON_P100),
        _gpu(
            *("V100", "float16", 125, (150, 50), _SHEET + "; links: DGX-1V"),
            (0.33, "NVIDIA's for big, in mixed precision, on one V100 of 16 GB"),
        ),
        _gpu("A100", "bfloat16", 312, (300, 200), _SHEET + "; links: DGX A100", _ON_A100),
        _gpu("H100", "bfloat16", 989, (450, 400), _SHEET + "; links: DGX H100", _ON_H100),
        _gpu(
            *("H200", "bfloat16", 989, (450, 400), _SHEET + "; links: DGX H200"),
            *(_ON_H200, _on_an_h200),
        ),
    )
}
THIS = "this"


def parse(text: str) -> Hardware:
    """Reads "8xP100", "H200" or "this"; `this` is measured.

    Raises:
        UserError: on another form, no devices or an unknown name.
    """
    match = re.fullmatch(r"(?:(\d+)x)?([A-Za-z]\w*)", text.strip())
    if not match or match[1] and int(match[1]) == 0:
        raise UserError(
            f"Expected --hardware as COUNTxNAME, such as 8xP100 or 1xH200, or this. "
            f"Received: {text!r}."
        )
    names = {name.lower(): device for name, device in DEVICES.items()}
    name = match[2].lower()
    if name != THIS and name not in names:
        raise unknown("hardware", match[2], [*DEVICES, THIS])
    return Hardware(int(match[1] or 1), this_machine() if name == THIS else names[name])


def this_machine() -> Device:
    """Returns this machine as one device, its float32 rate measured now; 10 Gbit/s between."""
    from t2t_repro.training import machine, step_time  # slow to load

    rate = machine.measure_rate() / 1e12
    source = "float32 products of 2048 x 2048 matrices, measured now; the network is assumed"
    by_width = step_time.share_of
    measured = (by_width(512), "by width, in float32 on two CPU cores: benchmarks/RESULTS.md")
    return Device(THIS, "float32", None, rate, 1.25, 1.25, 1, source, *measured, by_width)


def with_bandwidth(hardware: Hardware, bandwidth: float | None) -> Hardware:
    """Returns the hardware with links of `bandwidth` GB/s everywhere; None leaves them."""
    if bandwidth is None:
        return hardware
    device = replace(hardware.device, within=bandwidth, between=bandwidth)
    return replace(hardware, device=device)
