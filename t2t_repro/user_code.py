"""Code of the user's own, such as a --t2t_usr_dir: what goes wrong in it is the user's to mend.

An error that passes through it becomes one line with its file and line. Any other error that is no
`UserError` is a fault of this package, and keeps its traceback.
"""

import contextlib
import inspect
import os
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from t2t_repro.errors import Interrupted, UserError

_SHOWN = 200  # characters of what was raised or received
_OURS = pathlib.Path(__file__).parent
_PLACES: set[pathlib.Path] = set()


def add(place: str | os.PathLike) -> None:
    """Counts a file, or all below a folder, as the user's."""
    _PLACES.add(pathlib.Path(place).resolve())


def package_of(cls: type) -> str:
    """Returns the folder of the user's package that a class is of; "": of none that was added."""
    with contextlib.suppress(OSError, TypeError):  # it was not written in a file
        file = pathlib.Path(inspect.getsourcefile(cls) or "").resolve()
        return next((os.fspath(p) for p in _PLACES if p.is_dir() and p in file.parents), "")
    return ""


def place_of(error: BaseException) -> str:
    """Returns "FILE line N": the last line of the user's that led to an error; "": none."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [(frame.f_code.co_filename, line) for frame, line in frames]
    if isinstance(error, SyntaxError):  # it has no frame of its own
        lines.append((error.filename or "", error.lineno or 1))
    mine = [f"{file} line {line}" for file, line in lines if _is_users(file)]
    if not mine and error.__cause__:  # such as a StopIteration, which a generator may not raise
        return place_of(error.__cause__)
    return mine[-1] if mine else ""


def definition(function: Any) -> str:
    """Returns ", at FILE line N", where a function, method or property was written; "": unknown."""
    function = getattr(function, "fget", function)
    function = getattr(function, "func", function)  # of a cached_property
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return f", at {code.co_filename} line {code.co_firstlineno}" if code else ""


def member(cls: type, name: str) -> str:
    """Returns ", at FILE line N", where a class of the user's says something; "": it is ours."""
    owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
    if owner.__module__.startswith(f"{__package__}."):
        return ""
    return definition(vars(owner)[name]) or _place_of_class(owner)


def _place_of_class(cls: type) -> str:
    """Returns ", at FILE line N", where a class of the user's was written; "": it is ours."""
    if cls.__module__.startswith(f"{__package__}."):
        return ""
    try:
        return f", at {inspect.getsourcefile(cls)} line {inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):  # it was not written in a file
        return f", in {cls.__module__}"


def lacking(cls: type, method: str, does: str) -> UserError:
    """Returns what to say of a class of the user's without a method that it must have.

    Args:
        cls: the class.
        method: what it lacks, such as "source_data_files(self, dataset_split)".
        does: what the method does, such as "returns the files of a split".
    """
    return UserError(
        f"Expected {cls.__name__} to have {method}, which {does}. Received: a class without "
        f"it{_place_of_class(cls)}. Write it there."
    )


def fault(expected: str, error: BaseException) -> UserError:
    """Returns what to say of an error in the user's code: what was expected, what came, where."""
    place = place_of(error)
    words = type(error).__name__ + (f": {text}" if (text := shown(error, str)) else "")
    end = f", at {place}. Mend it there." if place else ". Mend your package."
    return UserError(f"Expected {expected}. Received: {words}{end}")


def shown(value: Any, form: Callable[[Any], str] = repr) -> str:
    """Returns a value of the user's in one line that is not long, whatever its methods do."""
    try:
        text = " ".join(form(value).split())
    except Exception:
        return f"an object of {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


@contextlib.contextmanager
def blaming(*more: type[BaseException]) -> Iterator[None]:
    """Turns what the user's code raises inside the block into a UserError that names the line.

    One that is a UserError already stays what it is, and gets the line; an error of the system
    that this package met on the user's behalf stays as well.

    Args:
        more: exceptions, beside those that end a program, to be treated so.
    """
    ends: tuple[type[BaseException], ...] = (Exception, SystemExit, *more)
    try:
        yield
    except Interrupted:
        raise
    except UserError as error:
        if (place := place_of(error)) and place not in str(error):
            error.args = (f"{error} ({place})",)
        raise
    except ends as error:
        if not place_of(error) or _is_of_the_system(error):
            raise
        raise fault("your own code to run without an error", error) from error


def _is_of_the_system(error: BaseException) -> bool:
    """Whether it is an error of the system, and did not arise in the user's own lines."""
    if not isinstance(error, OSError) or error.errno is None:
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return isinstance(error, BrokenPipeError) or not _is_users(frame.f_code.co_filename)


def _is_users(file: str) -> bool:
    path = pathlib.Path(file)
    ours = path.is_relative_to(_OURS) or "site-packages" in path.parts
    return not ours and any(path.is_relative_to(place) for place in _PLACES)
