"""JSON files read by a schema; errors are one line.

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


class Malformed(UserError):
    """A text that is no JSON, or not of its schema."""


def read(path: str | os.PathLike, kind: type[T], fix: str = "") -> T:
    """Returns the content of a JSON file as `kind`.

    Args:
        path: the file; UTF-8.
        kind: a dataclass, or another type.
        fix: what to do about a file that is broken, a sentence.

    Raises:
        Malformed: naming the file, the field and what is wrong with it.
        OSError: if it cannot be read.
    """
    return parse(pathlib.Path(path).read_bytes(), kind, os.fspath(path), fix)


def parse(text: str | bytes, kind: type[T], name: str, fix: str = "") -> T:
    """Returns the content of a JSON text as `kind`; errors call it `name`. See `read`."""
    import pydantic  # slow to load, and --help needs none

    try:
        return _adapter(typing.cast(Any, kind)).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"]))
    received = (f"{field}: " if field else "") + first["msg"].rstrip(".")
    raise Malformed(f"Expected {name} to be valid. Received: {received}. {fix}".rstrip())


@functools.cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)
