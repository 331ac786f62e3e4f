"""What all layers share: their configuration is their constructor's arguments."""

import inspect
from collections.abc import Iterable
from typing import Any

import keras


class Layer(keras.layers.Layer):
    """A Keras layer that keeps each argument of its constructor as an attribute of that name.

    A constructor with *args takes those of the class that it derives from, too. Keras finds every
    class by its name as one of this package.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("t2t_repro")(cls)

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in _arguments(type(self))}
        return {**super().get_config(), **keras.saving.serialize_keras_object(own)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Layer":
        plain = ("dtype",)  # Keras's own constructor reads a serialized policy
        made = {
            name: value if name in plain else keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
        }
        return cls(**made)


def build_all(layers: Iterable[keras.layers.Layer], input_shape) -> None:
    """Builds each of `layers` that is not built: a layer read from a config may be already."""
    for layer in layers:
        if not layer.built:
            layer.build(input_shape)


def _arguments(cls: type) -> list[str]:
    """Returns the names of what the constructor of `cls` takes, but for what every layer does."""
    names: list[str] = []
    for base in cls.__mro__[: cls.__mro__.index(Layer)]:
        if "__init__" in vars(base):
            _, *parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            names += [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
            if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
                break
    return names
