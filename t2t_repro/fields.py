"""Fields of a dataclass that come from text: rules in their types, overrides, and flags.

    hidden_size: Annotated[int, least(1)] = 64
    learning_rate: Annotated[float, least(0), AppliesIf(is_legacy, "legacy schedules do.")]
    n: int = flag(8, "How many checkpoints to average.", least=1)

A rule is a function of a field's name and value that raises a UserError, or an AppliesIf. A text
beside them is a tag, which `tagged` finds.
"""

import dataclasses
import json
import math
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from t2t_repro.errors import UserError

Rule = Callable[[str, Any], None]


class AppliesIf(NamedTuple):
    """When a field is read.

    Attributes:
        condition: a function of the whole configuration.
        otherwise: the error if it is set and unused; {hp.NAME} is another field's value.
    """

    condition: Callable[[Any], bool]
    otherwise: str


def rule(holds: Callable[[Any], object], expected: str) -> Rule:
    """Returns the rule that `holds` of a value, `expected` in words with {name} for the field's."""

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise UserError(f"Expected {expected.format(name=name)}. Received: {name}={value!r}.")

    return check


def least(bound: float) -> Rule:
    """Returns the rule that a value is not below `bound`."""
    return rule(lambda value: value >= bound, f"{{name}} >= {bound}")


def one_of(*choices: Any) -> Rule:
    """Returns the rule that a value is one of `choices`."""
    return rule(lambda value: value in choices, f"{{name}} to be one of {choices}")


Count = Annotated[int, least(1)]
CountOrZero = Annotated[int, least(0)]
Rate = Annotated[float, rule(lambda value: 0 <= value < 1, "0 <= {name} < 1")]
NotNegative = Annotated[float, least(0)]
Positive = Annotated[float, rule(lambda value: value > 0, "{name} > 0")]


def check_rules(config: Any) -> None:
    """Checks every field of a dataclass by its rules; the first that is broken raises."""
    for field in dataclasses.fields(config):
        for rule in _rules(field):
            if callable(rule):
                rule(field.name, getattr(config, field.name))


def unused(config: Any, names: Iterable[str]) -> dict[str, str]:
    """Returns {name: why} for those of `names` that nothing reads in this configuration."""
    fields = {field.name: field for field in dataclasses.fields(config)}
    return {
        name: rule.otherwise.format(hp=config)
        for name in names
        for rule in _rules(fields[name])
        if isinstance(rule, AppliesIf) and not rule.condition(config)
    }


def tagged(config: type, tag: str) -> list[str]:
    """Returns the names of the fields with a tag."""
    return [field.name for field in dataclasses.fields(config) if tag in _rules(field)]


def parse_overrides(text: str) -> dict[str, str]:
    """Splits "a=1,b=x*y,c=0,1" into {"a": "1", "b": "x*y", "c": "0,1"}.

    A piece without "=" belongs to the value before it, so that broadcast dims "0,1" need no quotes.
    """
    values: dict[str, str] = {}
    name = None
    for piece in text.split(",") if text.strip() else []:
        if "=" in piece:
            name, _, value = (part.strip() for part in piece.partition("="))
            if name in values:
                raise UserError(f"Expected each name once. Received: {name!r} twice in {text!r}.")
            values[name] = value
        elif name is None:
            raise UserError(f'Expected "name=value,name=value". Received: {text!r}.')
        else:
            values[name] += "," + piece.strip()
    return values


def parse_value(field: dataclasses.Field, text: str, kind_of_name: str = "hparam") -> Any:
    """Reads the value of an override by the field's type; a UserError names `kind_of_name`."""
    kinds = types_of(field)
    if text == "None" and type(None) in kinds:
        return None
    return _parse(kinds[0], field.name, text, kind_of_name)


def parse_like(value: Any, name: str, text: str) -> Any:
    """Reads the value of an override of an hparam that no field describes.

    Args:
        value: its value, whose kind `text` must have; if that is neither number nor text, `text` is
            JSON or plain text.
        name: the hparam.
        text: its new value.

    Raises:
        UserError: if it is of another kind.
    """
    if type(value) in (bool, int, float, str):
        return _parse(type(value), name, text, "hparam")
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


def _parse(kind: type, name: str, text: str, kind_of_name: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if kind is str:
            return text.strip("\"'")
        if kind is int and "e" in text and not float(text).is_integer():
            raise ValueError
        value = kind(float(text) if "e" in text else text)
        if not math.isfinite(value):
            raise ValueError
        return value
    except (KeyError, ValueError, OverflowError) as error:
        raise UserError(
            f"Expected {kind_of_name} {name} to be {kind.__name__}. Received: {text!r}."
        ) from error


def types_of(field: dataclasses.Field) -> tuple[type, ...]:
    """Returns the types that a field may have: (float, NoneType) for float | None."""
    kind: Any = field.type
    if typing.get_origin(kind) is Annotated:
        kind = kind.__origin__
    return typing.get_args(kind) or (kind,)


def _rules(field: dataclasses.Field) -> tuple:
    return getattr(field.type, "__metadata__", ())


def flag(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Returns the field of a request that is a flag of a program.

    Args:
        default: dataclasses.MISSING: there is none.
        text: what --help says.
        least: the least value.
        most: the greatest value.
        choices: the only values; (): any.
    """
    metadata = {"text": text, "least": least, "most": most, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


def flags_of(request: type) -> dict[str, dataclasses.Field]:
    """Returns {name: field} of the fields of a request that `flag` has made."""
    return {field.name: field for field in dataclasses.fields(request) if field.metadata}
