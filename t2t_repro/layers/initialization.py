"""tensor2tensor's initializers, and variables that stand for several of its variables."""

from collections.abc import Sequence

import keras
from keras import initializers, ops

from t2t_repro.errors import unknown


def kernel_initializer(name: str, gain: float = 1.0) -> initializers.Initializer:
    """Returns T2T's initializer `name` (utils/optimize.py, get_variable_initializer).

    Args:
        name: "uniform_unit_scaling", "normal_unit_scaling", "uniform", "orthogonal" or "xavier".
        gain: hparam initializer_gain.
    """
    match name:
        case "uniform_unit_scaling":
            return initializers.VarianceScaling(gain, "fan_avg", "uniform")
        case "normal_unit_scaling":
            return initializers.VarianceScaling(gain, "fan_avg", "truncated_normal")
        case "uniform":
            return initializers.RandomUniform(-0.1 * gain, 0.1 * gain)
        case "orthogonal":
            return initializers.Orthogonal(gain)
        case "xavier":
            return initializers.GlorotUniform()
    names = ("uniform_unit_scaling", "normal_unit_scaling", "uniform", "orthogonal", "xavier")
    raise unknown("initializer", name, names)


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
        draws = [self.initializer.clone()((*shape[:-1], size), dtype=dtype) for size in self.sizes]
        return ops.concatenate(draws, axis=-1)

    def get_config(self):
        return {
            "initializer": initializers.serialize(self.initializer),
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_config(cls, config):
        return cls(initializers.deserialize(config["initializer"]), config["sizes"])


def mark_parts(variable: keras.Variable, axis: int, sizes: Sequence[int]) -> None:
    """Notes that T2T keeps `variable` as several variables, split along `axis` into `sizes`.

    Adafactor reads it, whose statistics are those of T2T's variables, and the exchange of files.
    """
    variable.parts = (axis, tuple(sizes))
