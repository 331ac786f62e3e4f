"""How long a training step takes, by its FLOPs and the rate at which the machine multiplies."""

import math

from t2t_repro.config import HParams
from t2t_repro.training.machine import Machine

# The share of a CPU's products that a step reaches, by width: benchmarks/RESULTS.md.
_SHARES = {64: 0.25, 128: 0.40, 256: 0.60, 512: 0.72, 1024: 0.80}
# On a GPU a layer is many small operations, each of which takes its time however small it is. With
# both numbers five steps of Transformers on an H200 under JAX, of 4 to 95 ms, come out within a
# sixth of what they took: benchmarks/RESULTS.md.
_GPU_SHARE = 0.58
_GPU_LAYER = 0.55e-3  # seconds of a layer, forward and backward


def of(hparams: HParams, flop: float, machine: Machine) -> float:
    """Returns the seconds of a step that takes `flop` operations on all devices of a machine."""
    share = _share_on(machine, hparams)
    seconds = flop / machine.replicas / (machine.rate_of_a_replica * share)
    if machine.kind == "GPU":
        seconds += _GPU_LAYER * _layers(hparams)
    return seconds


def described(hparams: HParams, flop: float, machine: Machine) -> str:
    """Returns how `of` counts, for people."""
    whose = "each GPU's" if machine.kind == "GPU" and machine.replicas > 1 else "its"
    said = (
        f"by {flop / 1e12:,.3g} TFLOP a step at {_share_on(machine, hparams):.2f} of the "
        f"{machine.rate / 1e9:,.0f} GFLOP/s of {whose} matrix products, measured now"
    )
    if machine.kind == "GPU":
        said += f", and {1000 * _GPU_LAYER:.2f} ms for each of {_layers(hparams)} layers"
    return said


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


def _share_on(machine: Machine, hparams: HParams) -> float:
    return _GPU_SHARE if machine.kind == "GPU" else share_of(hparams.hidden_size)


def _layers(hparams: HParams) -> int:
    return hparams.encoder_layers + hparams.decoder_layers
