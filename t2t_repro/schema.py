"""JSON that lies on a disk, read by a schema: what is not as it was written is named in one line.

A schema is a type: a dataclass, whose `__post_init__` may check what its types cannot say, or such
as `dict[str, int]`. Nothing is converted: a step "7" or 7.0 is no integer.
"""

import functools
import os
import pathlib
import typing
from typing import Any, TypeVar

from t2t_repro.errors import UserError

T = TypeVar("T")

_SHOWN = 60  # characters of what was received


class Malformed(UserError):
    """A text that is no JSON, or not of its schema."""


class CutShort(Malformed):
    """JSON that ends before its end, as what was being written when a process was killed."""


def read(path: str | os.PathLike, kind: type[T], mend: str = "") -> T:
    """Returns what a JSON file holds, as `kind`.

    Args:
        path: the file; UTF-8.
        kind: a dataclass, or another type.
        mend: what to do about a file that is broken, a sentence.

    Raises:
        Malformed: naming the file, the field, what was expected and what was received;
            `CutShort` where the file ends too early.
        OSError: if it cannot be read.
    """
    return parse(pathlib.Path(path).read_bytes(), kind, os.fspath(path), mend)


def parse(text: str | bytes, kind: type[T], name: str, mend: str = "") -> T:
    """Returns what a JSON text holds, as `kind`; the errors call it `name`. See `read`."""
    import pydantic  # slow to load, and --help needs none

    try:
        return _adapter(typing.cast(Any, kind)).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    cut_short = first["type"] == "json_invalid" and "EOF" in first["msg"]
    message = f"{_complaint(first, name)} {mend}".rstrip()
    raise CutShort(message) if cut_short else Malformed(message)


@functools.cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)


def _complaint(error: Any, name: str) -> str:
    if error["type"] == "json_invalid":
        reason = error["msg"].removeprefix("Invalid JSON: ")
        return f"Expected JSON in {name}. Received: {reason}."
    if error["type"] == "value_error":  # what __post_init__ says is whole
        return f"{error['msg'].removeprefix('Value error, ')} (in {name})"
    field = ".".join(map(str, error["loc"]))
    where = f"{field} in {name}" if field else name
    if error["type"] in ("missing", "unexpected_keyword_argument"):
        received = "none" if error["type"] == "missing" else "a name that it does not have"
        return f"Expected {where}{'' if received == 'none' else ' not to be there'}. " + (
            f"Received: {received}."
        )
    expected = error["msg"].removeprefix("Input should be ")
    received = repr(error["input"])
    received = received if len(received) <= _SHOWN else received[:_SHOWN] + "..."
    return f"Expected {where} to be {expected}. Received: {received}."
