"""What all layers share: their configuration is their constructor's arguments."""

import inspect
from collections.abc import Iterable
from typing import Any

import keras


class Layer(keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructor as an attribute of that name.

    A constructor with *args takes those of the class that it derives from, too. A class outside
    this package has a `get_config` of its own for what it adds. Keras finds every class by its name
    as one of this package. A Keras mask of the first argument goes on to the outputs.
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
            # What a frozen layer makes is frozen too.
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

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _arguments(type(self))}
        return {**super().get_config(), **keras.saving.serialize_keras_object(own)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Layer":
        # Keras's own constructor reads a serialized policy. A string is what it says, also where
        # one of the user's custom objects has that name.
        made = {
            name: value
            if name == "dtype" or isinstance(value, str)
            else keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
        }
        return cls(**made)


def build_all(layers: Iterable[keras.layers.Layer], *shapes) -> None:
    """Builds each of `layers` that is not built: a layer read from a config may be already.

    Args:
        layers: the layers.
        shapes: of their inputs; None: there is no such input.
    """
    for layer in layers:
        if not layer.built:
            layer.build(*(shape for shape in shapes if shape is not None))


def _arguments(cls: type) -> list[str]:
    """Returns the names of what the constructor of `cls` takes, but for what every layer does."""
    names: list[str] = []
    for base in cls.__mro__[: cls.__mro__.index(Layer)]:
        if base.__module__.startswith("t2t_repro.") and "__init__" in vars(base):
            parameters = [*inspect.signature(vars(base)["__init__"]).parameters.values()][1:]
            named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            names += [each.name for each in parameters if each.kind in named]
            if not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
                break
    return names
