"""Files that are whole or absent: written under a temporary name and renamed when complete."""

import atexit
import contextlib
import csv
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from t2t_repro.errors import UserError

INCOMPLETE = ".incomplete"  # behind the name of a file that is being written
_PAUSE = 10  # seconds between two looks
_Paths = Mapping[str, str | os.PathLike | None]
Item = TypeVar("Item")


@contextlib.contextmanager
def writing(path: str | os.PathLike, mode: str = "w") -> Iterator[Any]:
    """Opens a file that appears under its name when the block ends, replacing an old one.

    Args:
        path: the file. Its folder is made if there is none. A link stays, and its target is
            replaced. A pipe or device, such as /dev/stdout, is written directly.
        mode: "w" for UTF-8 text whose lines end in "\\n", "wb" for bytes.
    """
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if is_stream(path):
        with open(path, mode, **text) as file:
            yield file
        return
    if os.path.isdir(path):  # found before the work is done, not after it
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    path = pathlib.Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + INCOMPLETE)
    try:
        with open(unfinished, mode, **text) as file:
            yield file
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    os.replace(unfinished, path)


def is_stream(path: str | os.PathLike) -> bool:
    """Returns whether what is written to `path` passes through it: a device or a pipe."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which gets the name `path` when the block ends.

    If the block fails, or a folder that is not empty has the name, nothing is left.
    """
    path = pathlib.Path(os.path.realpath(path))
    with scratch_folder(path) as unfinished:
        yield unfinished
        os.rename(unfinished, path)


@contextlib.contextmanager
def scratch_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a folder beside `path`, empty also after a kill, and removed after the block."""
    unfinished = path.with_name(path.name + INCOMPLETE)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def literal(folder: str | os.PathLike) -> str:
    """Returns a name of a folder that TensorFlow, for which [ ] * ? are patterns, reads literally.

    If its path has one of these, that is a temporary link.
    """
    if not set(os.fspath(folder)) & set("[]*?\\"):
        return os.fspath(folder)
    links = tempfile.mkdtemp(prefix="t2t-")
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    os.symlink(os.path.abspath(folder), link := os.path.join(links, "folder"))
    return link


def check_new_folder(path: pathlib.Path) -> None:
    """Refuses an existing path that is no empty folder.

    Raises:
        UserError: naming it.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(
            f"Expected a new or empty folder. Received: {path}. Delete it, or name another one."
        )


def write_text_atomic(path: str | os.PathLike, text: str) -> None:
    """Writes `text` so that a kill leaves the old file or the new one, never half of it."""
    with writing(path) as file:
        file.write(text)


def write_json(path: str | os.PathLike, value: Any, ensure_ascii: bool = True) -> None:
    """Writes a value as JSON, as `write_text_atomic` does."""
    write_text_atomic(path, json.dumps(value, indent=1, ensure_ascii=ensure_ascii) + "\n")


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_csv(path: str | os.PathLike, rows: Sequence[Any], floats: str = "") -> None:
    """Writes a table as UTF-8, a line of names first; the file appears when it is whole.

    Args:
        path: the file.
        rows: {name: value} of the same names; or lists, of which the first has the names. None
            becomes an empty field.
        floats: how to format a float, such as ".6g"; "": with all its digits.
    """
    if rows and isinstance(rows[0], Mapping):
        rows = [list(rows[0]), *(list(row.values()) for row in rows)]
    with writing(path) as file:
        csv.writer(file, lineterminator="\n").writerows(
            [format(v, floats) if isinstance(v, float) else v for v in row] for row in rows
        )


@contextlib.contextmanager
def locked(folder: str | os.PathLike, report: Callable[[str], None]) -> Iterator[None]:
    """Runs the block while no other process runs one for the folder; waits until then.

    The lock is the kernel's, on the folder itself: it leaves no file behind, and ends with the
    process, however that ends.

    Args:
        folder: an existing one.
        report: receives a line if the block has to wait.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"Waiting for another process that writes to {folder}.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_outputs(outputs: _Paths, inputs: _Paths) -> None:
    """Refuses, before the work, outputs that would overwrite an input or each other.

    Args:
        outputs: {what names it, such as "--json_file": what is to be written, or None}.
        inputs: {what names it: a file that is read, or None}.

    Raises:
        UserError: if an output is an input or another output, whatever links lead to it.
    """
    taken = {os.path.realpath(path): name for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None or is_stream(path):
            continue
        other = taken.setdefault(os.path.realpath(path), name)
        if other != name:
            raise UserError(f"Expected {name} and {other} to differ. Received: {path} for both.")


def appearing(
    find: Callable[[], Mapping[int, Item]],
    *,
    min_steps: int = 0,
    wait_minutes: float = 0,
) -> Iterator[Item]:
    """Yields the items by step, and new ones as they appear.

    It looks again after each, since a trainer removes old checkpoints.

    Args:
        find: returns the items: {step: item}.
        min_steps: items of earlier steps are skipped.
        wait_minutes: how long to wait for the next, after the caller is done with the last.
    """
    until = time.time() + 60 * wait_minutes
    while True:
        found = {step: item for step, item in find().items() if step >= min_steps}
        if found:
            step = min(found)
            min_steps = step + 1
            yield found[step]
            until = time.time() + 60 * wait_minutes
        elif time.time() >= until:
            return
        else:
            time.sleep(_PAUSE)
