"""Files that are whole or not there: written beside their name and renamed when complete."""

import contextlib
import csv
import errno
import fcntl
import hashlib
import os
import pathlib
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_repro.errors import UserError

INCOMPLETE = ".incomplete"  # behind the name of a file that is being written
_TRIES, _PAUSE_S = 50, 0.1  # how long another process that writes the same file is waited for


@contextlib.contextmanager
def writing(path: str | os.PathLike, mode: str = "w") -> Iterator[Any]:
    """Opens a file that appears under its name when the block ends; a file there is replaced.

    Args:
        path: the file. Its folder is made where there is none. A link stays one, and what it names
            is replaced. What is no file, such as a pipe or /dev/stdout, is written to.
        mode: "w" for UTF-8 text whose lines end in "\\n", "wb" for bytes.
    """
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    if is_stream(path):
        with naming(path), _open_stream(path, mode, **text) as file:
            yield file
        return
    path = behind_links(path)
    if path.is_dir():  # found before the work is done, not after it
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + INCOMPLETE)
    with _alone_at(unfinished, path, os.O_RDWR | os.O_CREAT) as handle:
        try:
            with naming(path), open(os.dup(handle), mode, **text) as file:
                file.truncate(0)
                yield file
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        os.replace(unfinished, path)


def is_stream(path: str | os.PathLike) -> bool:
    """Returns whether what is written to `path` passes through it: a device, a pipe, /dev/fd/N."""
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return _descriptor(path) is not None
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)) or _descriptor(path) is not None


def check_file(flag: str, path: str | os.PathLike) -> None:
    """Refuses what is no file, or can be read but once.

    Args:
        flag: what names it, such as "--source".
        path: the file.

    Raises:
        FileNotFoundError: if there is nothing.
        UserError: if it is a folder, a pipe or a device.
    """
    if os.path.isfile(path):
        return
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "No such file", os.fspath(path))
    if os.path.isdir(path):
        raise UserError(
            f"Expected {flag} to be a file. Received: {os.fspath(path)}, a folder. Name one of its "
            "files."
        )
    raise UserError(
        f"Expected {flag} to be a file, which is read more than once. Received: "
        f"{os.fspath(path)}, a pipe or a device. Write a file first."
    )


def behind_links(path: str | os.PathLike) -> pathlib.Path:
    """Returns what a link names in the end, which need not exist; any other path as it is.

    Raises:
        OSError: if links name each other.
    """
    if not os.path.islink(path):
        return pathlib.Path(path)
    try:
        return pathlib.Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return pathlib.Path(os.path.realpath(path))


def _descriptor(path: str | os.PathLike) -> int | None:
    """The number of the open file that a name such as /dev/stdout stands for, also by links."""
    name = os.path.abspath(path)
    for _ in range(40):  # the kernel follows no more
        folder, last = os.path.split(name)
        if last.isdecimal() and os.path.realpath(folder) == f"/proc/{os.getpid()}/fd":
            return int(last)
        if not os.path.islink(name):
            break
        name = os.path.join(folder, os.readlink(name))
    return None


def _open_stream(path: str | os.PathLike, mode: str, **text: Any) -> Any:
    number = _descriptor(path)
    if number is None:
        return open(path, mode, **text)
    # Opened by its name, a file behind it would be cut, and written from its start.
    if sys.stdout is not None:
        sys.stdout.flush()
    return open(os.dup(number), mode, **text)


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Puts `path` into a system's error that has none, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = os.fspath(path)
        raise


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which gets the name `path` when the block ends.

    Raises:
        UserError: as `check_new_folder`, or if another process fills it.

    If the block fails, nothing is left.
    """
    path = behind_links(path)
    check_new_folder(path)
    unfinished = path.with_name(path.name + INCOMPLETE)
    with _alone_at(unfinished, path, os.O_RDONLY):
        try:
            check_new_folder(path)  # another process may have filled it meanwhile
            for remains in unfinished.iterdir():
                shutil.rmtree(remains) if remains.is_dir() else remains.unlink()
            yield unfinished
            if path.is_dir():
                path.rmdir()
            os.rename(unfinished, path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _alone_at(unfinished: pathlib.Path, path: pathlib.Path, flags: int) -> Iterator[int]:
    """Opens a file, or a folder where `flags` do not create one, that no other process fills.

    Raises:
        UserError: if another process still does after some seconds.
    """
    for _ in range(_TRIES):
        if not flags & os.O_CREAT:
            unfinished.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            handle = os.open(unfinished, flags | os.O_CLOEXEC, 0o666)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE_S)
                continue
            except OSError:  # a file system without locks
                pass
            # Otherwise it was another's, who has renamed it meanwhile.
            if unfinished.exists() and os.path.samestat(os.fstat(handle), os.stat(unfinished)):
                yield handle
                return
    raise UserError(
        f"Expected no other process that writes {path}. Received: one at work. Wait for it or stop "
        "it, or name another."
    )


def check_new_folder(path: pathlib.Path) -> None:
    """Refuses a folder that holds something, one that cannot be replaced, and what is no folder.

    Raises:
        UserError: naming it.
    """
    if path.is_dir() and any(path.iterdir()):
        raise UserError(
            f"Expected a new or empty folder. Received: {path}, which holds files. Remove it, or "
            "name another."
        )
    if path.is_dir() and (os.path.ismount(path) or path.samefile(pathlib.Path.cwd())):
        where = "a file system of its own" if os.path.ismount(path) else "the folder you are in"
        raise UserError(
            "Expected a new folder, or an empty one that a full one can take the place of. "
            f"Received: {path}, {where}. Name a folder in it."
        )
    if path.exists() and not path.is_dir():
        raise UserError(f"Expected a folder. Received: the file {path}. Name another.")


def write_text_atomic(path: str | os.PathLike, text: str) -> None:
    """Writes `text` so that a kill leaves the old file or the new one, never half of it."""
    with writing(path) as file:
        file.write(text)


def append_line(path: str | os.PathLike, line: str) -> None:
    """Appends a line, behind one that a kill or a full disk has cut short a new one.

    Args:
        path: a file of lines in UTF-8, or a stream.
        line: the line, without its end.
    """
    with naming(path), open(path, "ab") as file:
        file.write(b"\n" * _is_torn(path) + line.encode() + b"\n")


def _is_torn(path: str | os.PathLike) -> bool:
    """Returns whether a file ends within a line."""
    if is_stream(path) or not os.path.getsize(path):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_csv(
    path: str | os.PathLike,
    rows: Sequence[Mapping[str, Any] | Sequence[Any]],
    floats: str = "",
    end: str = "\n",
) -> None:
    """Writes a table as UTF-8, a line of names first; the file appears when it is whole.

    Args:
        path: the file.
        rows: {name: value} of the same names; or lists, of which the first has the names. None
            becomes an empty field.
        floats: how to format a float, such as ".6g"; "": with all its digits.
        end: that of a line.

    Raises:
        ValueError: on a row with another name than the first.
    """
    names: Sequence = list(rows[0]) if rows else []
    with writing(path) as file:
        table = csv.DictWriter(file, names, lineterminator=end)
        table.writeheader()
        for row in rows if rows and isinstance(rows[0], Mapping) else rows[1:]:
            named = row if isinstance(row, Mapping) else dict(zip(names, row, strict=True))
            table.writerow(
                {k: format(v, floats) if isinstance(v, float) else v for k, v in named.items()}
            )


@contextlib.contextmanager
def locked(folders: Iterable[str | os.PathLike], report: Callable[[str], None]) -> Iterator[None]:
    """Runs the block while no other process runs one for any of the folders; waits until then.

    The locks are the kernel's, on the folders themselves: they leave no file behind, and end with
    the process, however that ends. A folder on a file system without locks is not waited for.

    Args:
        folders: they are there; two names of one folder are one.
        report: receives a line for each folder that is waited for.
    """
    with contextlib.ExitStack() as stack:
        # In one order everywhere, so that no two processes wait for each other.
        for folder in sorted({os.path.realpath(folder) for folder in folders}):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(f"Waiting for another process that writes to {folder}.")
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError:
                continue
        yield
