"""A request that is made of flags: a dataclass whose fields say what --help says of them."""

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple


class Flag(NamedTuple):
    """A field of a request as a flag: its type, default and text, and which values it may have."""

    kind: type
    default: Any
    text: str
    least: float | None
    most: float | None
    choices: Sequence[str]


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


def flags_of(request: type) -> dict[str, Flag]:
    """Returns {name: flag} of the fields of a request that `flag` has made."""
    found = {}
    for field in dataclasses.fields(request):
        if field.metadata:
            kind = (typing.get_args(field.type) or (field.type,))[0]
            default = None if field.default is dataclasses.MISSING else field.default
            found[field.name] = Flag(kind, default, **field.metadata)
    return found
