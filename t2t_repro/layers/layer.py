"""What all layers share: their configuration is their constructor's arguments."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np

from t2t_repro.errors import UserError, unknown

_OF_EVERY_LAYER = inspect.signature(keras.layers.Layer.__init__).parameters


class Replacing:
    """A layer that forgets a layer for which another is assigned; Keras would go on to hold both.

    Mixed into a Keras layer. What is built takes no other layers.
    """

    _tracker: Any
    _layers: list[keras.layers.Layer]

    def __setattr__(self, name, value):
        before = [] if vars(self).get("built", True) else held_layers({name: vars(self).get(name)})
        super().__setattr__(name, value)
        if before:
            places = {id(layer): place for place, layer in enumerate(held_layers(vars(self)))}
            for layer in before:
                if id(layer) not in places:
                    self._tracker.untrack(layer)
            # The order of the variables is then that of one who was constructed so: an optimizer
            # is saved and loaded in it.
            self._layers.sort(key=lambda layer: places.get(id(layer), len(places)))


def held_layers(attributes: dict[str, Any]) -> list[keras.layers.Layer]:
    """Returns the layers that attributes with a public name hold, alone or in a list or tuple."""
    public = (value for name, value in attributes.items() if not name.startswith("_"))
    flat = (x for value in public for x in (value if isinstance(value, list | tuple) else [value]))
    return [each for each in flat if isinstance(each, keras.layers.Layer)]


def all_held(attributes: dict[str, Any]) -> list[keras.layers.Layer]:
    """Returns the layers that attributes hold, each before those that it holds itself."""
    return [x for held in held_layers(attributes) for x in (held, *all_held(vars(held)))]


class Layer(Replacing, keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructor as an attribute of that name.

    A constructor with *args takes those of the class that it derives from, too; of a class of the
    user's the config has what it was given of these by **kwargs, and of its own what it keeps.
    Keras finds every class by its name as one of this package. A Keras mask of the first argument
    goes on to the outputs.
    """

    _takes: frozenset[str] = frozenset()  # what its constructor takes by name, and its config has
    _given: frozenset[str] = frozenset()  # what a user's class was called with, by name

    def __new__(cls, *args, **kwargs):
        ours = cls.__module__.startswith("t2t_repro.")  # a user's may take what it likes
        for name in kwargs if ours else ():
            if name not in cls._takes and name not in _OF_EVERY_LAYER:
                raise unknown(f"argument of {cls.__name__}", name, cls._takes)
        layer = super().__new__(cls, *args, **kwargs)
        if not ours:
            object.__setattr__(layer, "_given", frozenset(kwargs))
        return layer

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("t2t_repro")(cls)
        cls._takes = frozenset(_arguments(cls))

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, keras.Variable) and not self.trainable:
            value.trainable = False  # what add_weight makes is so, too
        held = held_layers({name: value})  # what the constructor and `build` make
        if held and not self.trainable:
            for layer in held:
                layer.trainable = False

    def compute_output_spec(self, *args, **kwargs):
        # As a Keras layer that has no compute_output_shape: its outputs may be of several dtypes.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def compute_output_shape(self, *shapes, **named):
        """Returns the shape of the outputs, by default that of the first inputs.

        Attention's weights, where a layer returns them too, are left out.
        """
        return (*shapes, *named.values())[0]

    def get_config(self) -> dict[str, Any]:
        names = _arguments(type(self))
        if not type(self).__module__.startswith("t2t_repro."):
            names += sorted(self._given - {*names, *_OF_EVERY_LAYER})
            names = [name for name in names if hasattr(self, name)]
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **keras.saving.serialize_keras_object(own)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Layer":
        made = {
            # Keras's own constructor reads a serialized policy. A string is what it says, also
            # where one of the user's custom objects has that name.
            name: value
            if name == "dtype" or isinstance(value, str)
            else keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
        }
        told = [(layer, layer.trainable) for layer in all_held(made)]
        layer = cls(**made)
        for each, trainable in told:  # a frozen layer may hold one that is trained
            if each.trainable != trainable:
                each.trainable = trainable
        return layer


def check_sizes(least: int = 1, optional: bool = False, **sizes: Any) -> None:
    """Refuses arguments, by their names, that are no size, before a backend computes with them.

    Args:
        least: what a size is at least.
        optional: whether None is one, too.
        sizes: the arguments.

    Raises:
        UserError: on the first that is no whole number, or below `least`.
    """
    for name, size in sizes.items():
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not (whole and size >= least or optional and size is None):
            raise UserError(
                f"Expected {name} to be a whole number of at least {least}"
                f"{', or None' if optional else ''}. Received: {size!r}."
            )


def build_all(layers: Iterable[keras.layers.Layer], *shapes) -> None:
    """Builds each of `layers` that is not built: a layer read from a config may be already.

    Args:
        layers: the layers.
        shapes: of their inputs; None: there is no such input.
    """
    shapes = tuple(shape for shape in shapes if shape is not None)
    for layer in layers:
        if layer.built:
            continue
        if type(layer).build is keras.layers.Layer.build and held_layers(vars(layer)):
            layer(*map(keras.KerasTensor, shapes))  # Keras's own build leaves them as they are
        else:
            layer.build(*shapes)


def _arguments(cls: type) -> list[str]:
    """Returns the names of what the constructor of `cls` takes, but for what every layer does."""
    names: list[str] = []
    for base in cls.__mro__[: cls.__mro__.index(Layer)]:
        if "__init__" in vars(base):
            constructor = vars(base)["__init__"]
            names += _named_parameters(constructor)
            if not any(p.kind is p.VAR_POSITIONAL for p in _parameters(constructor)):
                break
    return names


def _parameters(constructor: Callable) -> list[inspect.Parameter]:
    """Returns the parameters of a constructor after `self`."""
    return list(inspect.signature(constructor).parameters.values())[1:]


def _named_parameters(constructor: Callable) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in _parameters(constructor) if each.kind in named]
