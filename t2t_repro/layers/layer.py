"""What all layers share: their configuration, tensor2tensor's initializers, dropout."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
from keras import initializers, ops

from t2t_repro.layers import kernels


class Layer(keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructor as an attribute of that name.

    A constructor with *args takes those of the class that it derives from, too. A class outside
    this package has a `get_config` of its own for what it adds. Keras finds every class by its name
    as one of this package. The outputs get the Keras mask of the first argument.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("t2t_repro")(cls)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        for each in value if isinstance(value, list | tuple) else [value]:
            # Sublayers of a frozen layer are frozen too.
            if isinstance(each, keras.Variable | keras.layers.Layer) and not self.trainable:
                each.trainable = False

    def compute_output_spec(self, *args, **kwargs):
        # As a Keras layer that has no compute_output_shape: its outputs may be of several dtypes.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def compute_output_shape(self, *shapes, **named):
        """Returns the shape of the outputs, by default that of the first inputs.

        Attention's weights, where a layer returns them too, are left out.
        """
        return (*shapes, *named.values())[0]

    def fused_kernel(self, name: str, rows: Sequence[int], sizes: Sequence[int]) -> "FusedVariable":
        """Returns a new (*rows, sum of sizes), each part of it drawn by `kernel_initializer`."""
        draw, dtype = ByParts(self.kernel_initializer, sizes), self.variable_dtype
        shape, axis = (*rows, sum(sizes)), len(rows)
        return FusedVariable(draw, shape, dtype, name=name, axis=axis, sizes=sizes)

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _arguments(type(self))}
        return {**super().get_config(), **keras.saving.serialize_keras_object(own)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Layer":
        # Keras's own constructor reads a serialized policy. A string is a name, even if a custom
        # object of the user's has that name.
        made = {
            name: value
            if name == "dtype" or isinstance(value, str)
            else keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
        }
        return cls(**made)


def build_all(layers: Iterable[keras.layers.Layer], *shapes) -> None:
    """Builds each of `layers` that is not built yet; one read from a config may be.

    Args:
        layers: the layers.
        shapes: of their inputs; None: there is no such input.
    """
    for layer in layers:
        if not layer.built:
            layer.build(*(shape for shape in shapes if shape is not None))


def _arguments(cls: type) -> list[str]:
    """Returns the names of the constructor's arguments, except those of every layer."""
    names: list[str] = []
    for base in cls.__mro__[: cls.__mro__.index(Layer)]:
        if base.__module__.startswith("t2t_repro.") and "__init__" in vars(base):
            taken = inspect.getfullargspec(vars(base)["__init__"])
            names += [*taken.args[1:], *taken.kwonlyargs]
            if not taken.varargs:
                break
    return names


# --- variables -----------------------------------------------------------------------------------


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
    """One variable for what T2T keeps as several, side by side.

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


# --- dropout -------------------------------------------------------------------------------------


@keras.saving.register_keras_serializable("t2t_repro")
class Dropout(keras.layers.Dropout):
    """Keras's Dropout, drawn by `kernels.dropout`."""

    def build(self, input_shape):
        """Makes nothing. Keras's own is never called, so that `summary` shows no shape."""

    def call(self, inputs, training=False):
        """Returns `inputs`, in training with `rate` of them 0 and the others scaled up."""
        if not training or not self.rate:
            return inputs
        return kernels.dropout(inputs, self.rate, self.noise_shape, self.seed_generator)


def dropout_layer(
    rate: float, broadcast_dims: Sequence[int], rank: int, dtype, name: str = "dropout"
) -> Dropout:
    """Returns a Dropout whose draw is shared along `broadcast_dims`.

    As T2T's layers/common_layers.py, dropout_with_broadcast_dims.

    Args:
        rate: the share of values set to 0; the others are scaled by 1 / (1 - rate).
        broadcast_dims: axes that share one draw; negative axes count from the end.
        rank: the rank of the inputs.
        dtype: the policy of the layer that it belongs to.
    """
    shared = {axis % rank for axis in broadcast_dims}
    noise_shape = tuple(1 if axis in shared else None for axis in range(rank)) if shared else None
    return Dropout(rate, noise_shape=noise_shape, dtype=dtype, name=name)


def parse_dims(text: str) -> tuple[int, ...]:
    """Reads T2T's "0,1" as (0, 1); "" is no axis."""
    return tuple(int(dim) for dim in text.split(",") if dim.strip())


# --- lengths -------------------------------------------------------------------------------------


def smaller(one, other):
    """Returns the smaller of two lengths; a number where both are, as JAX wants them in shapes."""
    both = isinstance(one, int) and isinstance(other, int)
    return min(one, other) if both else ops.minimum(one, other)


def larger(one, other):
    """Returns the larger of two lengths, as `smaller`."""
    both = isinstance(one, int) and isinstance(other, int)
    return max(one, other) if both else ops.maximum(one, other)
