"""What of a model was changed after its constructor, so that it saves as it is: layers that were
assigned, layers that were frozen."""

import collections
import json
import re
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from t2t_repro.errors import UserError
from t2t_repro.layers.layer import all_held, held_layers


class Made:
    """Which layers a model's constructor made.

    Args:
        model: as its constructor leaves it.
        names: the attributes that hold its layers; some may hold the same one.
    """

    def __init__(self, model: keras.Model, names: Sequence[str]):
        self._names = tuple(names)
        layers = all_held(vars(model))
        self._layers = [weakref.ref(layer) for layer in layers]  # an id may be had again
        self._places = [id(layer) for layer in layers]
        self._inside = [_counts(layer) for layer in layers]

    def changed(self, model: keras.Model, own: bool = False) -> list[dict[str, Any]]:
        """Returns [{"names": attributes, "layer": the serialized layer that they hold}, ...].

        [] where the constructor makes the same.

        Args:
            model: the one that was given before.
            own: whether it may have layers in other attributes, which a subclass makes.

        Raises:
            UserError: if a layer was assigned that no configuration tells.
        """
        self.check(model, own)
        if self._as_made(model):
            return []
        holders: dict[int, list[str]] = {}
        for name in self._names:
            holders.setdefault(id(getattr(model, name)), []).append(name)
        serialize = keras.saving.serialize_keras_object
        layers = {held[0]: serialize(getattr(model, held[0])) for held in holders.values()}
        return [
            {"names": held, "layer": _without(layers[held[0]], "build_config")}
            for held in holders.values()
        ]

    def check(self, model: keras.Model, own: bool = False) -> None:
        """Refuses what `changed` could not tell; arguments and errors as there."""
        others = _others(model, self._names)
        if others and not own:
            raise _untold(others[0], "the model", "a class of your own that derives from it")
        if self._as_made(model):
            return
        for part in {id(part): part for part in map(model.__getattribute__, self._names)}.values():
            for layer in [part, *all_held(vars(part))]:
                _check_is_told(layer)

    def has_others(self, model: keras.Model) -> bool:
        """Whether a layer that they did not hold stands in the place of one, or beside some.

        One of them may stand in several places, as a tied one; what `build` makes is no other.
        """
        made = self._made()
        living = zip((ref() for ref in self._layers), self._inside, strict=True)
        holders: list[tuple[Any, dict[str, int]]] = [(x, n) for x, n in living if x is not None]
        for holder, inside in [*holders, (model, dict.fromkeys(self._names, 1))]:
            for name, count in inside.items():
                held = held_layers({name: getattr(holder, name)})
                if len(held) != count or any(id(layer) not in made for layer in held):
                    return True
        return False

    def _made(self) -> set[int]:
        return {id(layer) for layer in (ref() for ref in self._layers) if layer is not None}

    def _as_made(self, model: keras.Model) -> bool:
        made = self._made()
        return [i for i in map(id, all_held(vars(model))) if i in made] == self._places


def assigned(model: keras.Model) -> str:
    """Returns what model has layers that its hparams do not tell, for errors; "": none is known."""
    made = getattr(model, "_made", None)
    others = made is not None and made.has_others(model)
    return f"a {type(model).__name__} with layers that were assigned" if others else ""


def _counts(layer: keras.layers.Layer) -> dict[str, int]:
    """Returns {attribute: how many layers it holds} of those that hold some."""
    counted = ((name, len(held_layers({name: value}))) for name, value in vars(layer).items())
    return {name: count for name, count in counted if count}


def restore(model: keras.Model, groups: list[dict[str, Any]]) -> None:
    """Assigns what `Made.changed` returned."""
    for group in groups:
        layer = keras.saving.deserialize_keras_object(group["layer"])
        for name in group["names"]:
            setattr(model, name, layer)


def trained(model: keras.Model) -> dict[str, bool]:
    """Returns {name: whether it is trained} of what is otherwise than the layer that holds it.

    A name is that of attributes, as "encoder.layers.1"; "" is the model.
    """
    return {
        name: layer.trainable
        for name, layer, holder in _named(model)
        if layer.trainable != (holder is None or holder.trainable)
    }


def set_trained(model: keras.Model, names: dict[str, bool]) -> None:
    """Lets be trained, and not, what `trained` returned."""
    if names:
        if not model.built:
            model.build()  # some layers are made there
        for name, layer, _ in list(_named(model)):
            if name in names:
                layer.trainable = names[name]


def _named(
    layer: keras.layers.Layer, name: str = "", holder: keras.layers.Layer | None = None
) -> Iterator[tuple[str, keras.layers.Layer, keras.layers.Layer | None]]:
    """Yields (name, layer, the one that holds it) of a layer, of what it holds, and so on."""
    yield name, layer, holder
    for attribute, value in vars(layer).items():
        several = isinstance(value, list | tuple)
        for number, each in enumerate(held_layers({attribute: value})):
            parts = filter(None, [name, attribute, str(number) if several else ""])
            yield from _named(each, ".".join(parts), layer)


def _others(model: keras.Model, names: Sequence[str]) -> list[keras.layers.Layer]:
    """Returns the layers of a model that none of its attributes `names` holds."""
    parts = {id(getattr(model, name)) for name in names}
    return [layer for layer in held_layers(vars(model)) if id(layer) not in parts]


def _check_is_told(layer: keras.layers.Layer) -> None:
    """Refuses a layer that has another inside than what its configuration makes."""
    known = {type(each).__name__: type(each) for each in (layer, *all_held(vars(layer)))}
    again = keras.saving.deserialize_keras_object(_alone(layer), custom_objects=known)
    inner = held_layers(vars(layer))
    told = collections.Counter(map(_described, held_layers(vars(again))))
    if told - collections.Counter(map(_described, inner)):
        new = [each for each in inner if _described(each) not in told] or inner
        what = f"a class of your own instead of {type(layer).__name__}"
        raise _untold(new[0], layer.path or layer.name, what)


def _untold(layer: keras.layers.Layer, where: str, instead: str) -> UserError:
    return UserError(
        f"Expected layers that the configuration of {where} tells. Received: the "
        f"{type(layer).__name__} {layer.name!r} in it, which was assigned and could not be loaded. "
        f"Take {instead}, which makes it in its constructor."
    )


def _alone(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns a layer serialized as if nothing else was, and nothing built."""
    return _without(keras.saving.serialize_keras_object(layer), "build_config", "shared_object_id")


def _described(layer: keras.layers.Layer) -> str:
    """Returns a layer's configuration as text, without the numbers that Keras counts names by."""
    return json.dumps(_uncounted(_alone(layer)), default=str)


def _uncounted(config: Any) -> Any:
    if isinstance(config, list | tuple):
        return [_uncounted(each) for each in config]
    if isinstance(config, dict):
        return {
            key: _uncounted(_name(each) if key == "name" else each) for key, each in config.items()
        }
    return config


def _name(of_a_layer: Any) -> Any:
    return re.sub(r"_\d+$", "", of_a_layer) if isinstance(of_a_layer, str) else of_a_layer


def _without(config: Any, *keys: str) -> Any:
    if isinstance(config, dict):
        return {name: _without(value, *keys) for name, value in config.items() if name not in keys}
    if isinstance(config, list | tuple):
        return type(config)(_without(each, *keys) for each in config)
    return config
