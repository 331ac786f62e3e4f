"""tensor2tensor's initializers, and variables that stand for several of its variables."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import initializers, ops

INITIALIZERS: dict[str, Callable[[float], initializers.Initializer]] = {  # given the gain
    "uniform_unit_scaling": lambda gain: initializers.VarianceScaling(gain, "fan_avg", "uniform"),
    "normal_unit_scaling": lambda gain: initializers.VarianceScaling(
        gain, "fan_avg", "truncated_normal"
    ),
    "uniform": lambda gain: initializers.RandomUniform(-0.1 * gain, 0.1 * gain),
    "orthogonal": initializers.Orthogonal,
    "xavier": lambda gain: initializers.GlorotUniform(),
}


def kernel_initializer(name: str, gain: float = 1.0) -> initializers.Initializer:
    """Returns T2T's initializer `name` (utils/optimize.py, get_variable_initializer).

    Args:
        name: one of INITIALIZERS.
        gain: hparam initializer_gain.
    """
    return INITIALIZERS[name](gain)


def cloned(initializer: Any) -> Any:
    """Returns another initializer of the same kind, which draws numbers of its own.

    A function is taken as it is.
    """
    return initializer.clone() if hasattr(initializer, "clone") else initializer


@keras.saving.register_keras_serializable("t2t_repro")
class ByParts(initializers.Initializer):
    """Initializes each part of a fused variable as if it were a variable of its own.

    Args:
        initializer: what draws each part.
        sizes: the parts' sizes along the last axis.
    """

    def __init__(self, initializer: initializers.Initializer, sizes: Sequence[int]):
        self.initializer = initializer
        self.sizes = tuple(sizes)

    def __call__(self, shape, dtype=None):
        # A seeded initializer draws the same numbers at every call: each part needs its own clone.
        draws = [cloned(self.initializer)((*shape[:-1], size), dtype=dtype) for size in self.sizes]
        return ops.concatenate(draws, axis=-1)

    def get_config(self):
        return {
            "initializer": initializers.serialize(self.initializer),
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_config(cls, config):
        return cls(initializers.deserialize(config["initializer"]), config["sizes"])


class FusedVariable(keras.Variable):
    """One variable that T2T keeps as several, each beside the next.

    Adafactor's statistics are those of T2T's variables, and so are the files exchanged with it.

    Args:
        axis: along which they lie.
        sizes: of each along this axis.
        arguments: see keras.Variable.
    """

    def __init__(self, *arguments, axis: int, sizes: Sequence[int], **kwargs):
        super().__init__(*arguments, **kwargs)
        self.axis = axis
        self.sizes = tuple(sizes)

    @property
    def cuts(self) -> list[int]:
        """Where along the axis each part but the first begins."""
        return list(itertools.accumulate(self.sizes))[:-1]


def fused_kernel(
    name: str, initializer: initializers.Initializer, rows: int, sizes: Sequence[int], dtype: str
) -> FusedVariable:
    """Returns a new (rows, sum of sizes) kernel, each part of `sizes` columns drawn by itself."""
    by_parts = ByParts(initializer, sizes)
    shape = (rows, sum(sizes))
    return FusedVariable(by_parts, shape, dtype, name=name, axis=1, sizes=sizes)
