"""What a program is about to write: no file that it reads, or of a run, and where there is room."""

import errno
import os
import pathlib
import re
import tempfile
from collections.abc import Mapping

from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, is_stream
from t2t_repro.run_directory import owner

# The records and vocabularies of a --data_dir, by their names.
_DATA = re.compile(r"vocab\..+|.+-\d{5}-of-\d{5}")
_Paths = Mapping[str, str | os.PathLike | None]


def check_outputs(outputs: _Paths, inputs: _Paths, *, folders: bool = False) -> None:
    """Refuses, before the work, outputs that would destroy something.

    Files are compared by what they are, whatever links and names lead to them. An output counts
    with what lies beside it while it grows.

    Args:
        outputs: {what names it, such as "--json_file": a file that is to be written, or None}.
            A folder where a file is to be written is refused.
        inputs: {what names it: a file that is read, or a folder of them, or None}.
        folders: whether what is to be written is folders.

    Raises:
        UserError: if an output is an input, or in a folder of them, or another output, or a file
            of a run's own, or data.
    """
    taken = {name: [path] for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None or (is_stream(path) and not os.path.isfile(path)):
            continue
        if not folders and os.path.isdir(path):
            raise UserError(
                f"Expected {name} to be a file. Received: the folder {os.fspath(path)}. Name a "
                "file in it."
            )
        run = owner(path)
        if run is not None:
            raise UserError(
                f"Expected {name} to be a file of your own. Received: {os.fspath(path)}, which the "
                f"run {run} needs. Name another."
            )
        if _DATA.fullmatch(os.path.basename(os.path.realpath(path))) and os.path.exists(path):
            raise UserError(
                f"Expected {name} to be a file of your own. Received: {os.fspath(path)}, which by "
                "its name is data of a problem. Name another."
            )
        names = [os.fspath(path) + ending for ending in ("", INCOMPLETE, f"{INCOMPLETE}.json")]
        for other, paths in taken.items():
            for mine, there in ((mine, there) for mine in names for there in paths):
                if _same(mine, there):
                    raise UserError(_message(name, mine, os.fspath(path), other, there))
        taken[name] = list(names)


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


def _same(output: str, there: str | os.PathLike) -> bool:
    if os.path.exists(output) and os.path.exists(there) and os.path.samefile(output, there):
        return True
    output, there = os.path.realpath(output), os.path.realpath(there)
    return output == there or (os.path.isdir(there) and output.startswith(there + os.sep))


def _message(name: str, mine: str, path: str, other: str, there: str | os.PathLike) -> str:
    received = f"{path} for both" if mine == path == there else f"{path} and {os.fspath(there)}"
    if mine != path:
        received += f", while {mine} lies beside it as it grows"
    elif path != there:
        received += ", which is " + ("its folder" if os.path.isdir(there) else "the same")
    return f"Expected {name} to be another file than {other}. Received: {received}. Name another."
