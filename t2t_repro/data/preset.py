"""Which hparam set suits a text of so many pairs, on this device."""

import pathlib
from typing import NamedTuple

SMALL, MEDIUM, LARGE = (f"transformer_own_text_{size}" for size in ("small", "medium", "large"))
_OF_SMALL, _OF_MEDIUM = 100_000, 1_000_000  # pairs, at most


class Preset(NamedTuple):
    """A set, and why it is proposed."""

    hparams_set: str
    reason: str


def has_gpu() -> bool:
    """Returns whether this machine has a GPU of NVIDIA's; no library is loaded for it."""
    return any(pathlib.Path("/dev").glob("nvidia[0-9]*"))


def preset(pairs: int, gpu: bool) -> Preset:
    """Returns the set for a text.

    Args:
        pairs: of training.
        gpu: whether it is trained on a GPU.
    """
    what = f"{pairs:,} training pairs on a {'GPU' if gpu else 'CPU'}"
    if pairs <= _OF_SMALL:
        return Preset(SMALL, f"{what}: a larger model learns so few by heart")
    if pairs <= _OF_MEDIUM or not gpu:
        slow = "a larger one takes weeks there" if pairs > _OF_MEDIUM else "they support this width"
        return Preset(MEDIUM, f"{what}: {slow}")
    return Preset(LARGE, f"{what}: they support the paper's base model")
