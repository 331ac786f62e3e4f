"""What is to be written, checked before the work: it must destroy no input, and find room."""

import errno
import os
import pathlib
import tempfile
from collections.abc import Mapping

from t2t_repro.errors import UserError
from t2t_repro.files import is_stream

_Paths = Mapping[str, str | os.PathLike | None]


def check_outputs(outputs: _Paths, inputs: _Paths, *, folders: bool = False) -> None:
    """Refuses, before the work, outputs that would destroy what is read, or each other.

    Files are compared by what they are, whatever links and names lead to them.

    Args:
        outputs: {what names it, such as "--json_file": a file that is to be written, or None}.
            A folder where a file is to be written is refused.
        inputs: {what names it: a file that is read, or a folder of them, or None}.
        folders: whether what is to be written is folders.

    Raises:
        UserError: if an output is an input, or in a folder of them, or another output.
    """
    taken = {name: path for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None or (is_stream(path) and not os.path.isfile(path)):
            continue
        if not folders and os.path.isdir(path):
            raise UserError(f"Expected {name} to be a file. Received: the folder {path}.")
        for other, there in taken.items():
            if _same(path, there):
                raise UserError(
                    f"Expected {name} to be another file than {other}. Received: {path} and "
                    f"{there}. Name another."
                )
        taken[name] = path


def check_room(folder: str | os.PathLike, size: int = 1) -> None:
    """Tries whether files can be written into a folder, or into the one that it would be made in.

    Args:
        folder: it, which need not exist.
        size: bytes that there must be room for.

    Raises:
        OSError: if not, naming the folder.
    """
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(folder))
    path = pathlib.Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=os.fspath(there)) as file:
            file.write(bytes(size))
            file.flush()
    except OSError as error:
        error.filename = os.fspath(folder)  # not that of a file which nobody named
        raise


def _same(output: str | os.PathLike, there: str | os.PathLike) -> bool:
    if os.path.exists(output) and os.path.exists(there) and os.path.samefile(output, there):
        return True
    output, there = os.path.realpath(output), os.path.realpath(there)
    return output == there or (os.path.isdir(there) and output.startswith(there + os.sep))
