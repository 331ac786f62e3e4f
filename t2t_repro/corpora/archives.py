"""Files out of .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz and .zip archives, and nothing else."""

import lzma
import os
import pathlib
import posixpath
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable

from t2t_repro import progress
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError)


def is_archive(path: str | os.PathLike) -> bool:
    """Whether a file's name says that it is an archive."""
    return os.fspath(path).endswith(SUFFIXES)


def extract(
    path: str | os.PathLike, folder: str | os.PathLike, wanted: Callable[[str], bool]
) -> list[str]:
    """Writes the wanted files of an archive into `folder`, and returns their names.

    The files appear under their names when the whole archive has been read and its checksum is
    right, so that a broken archive, or a kill, leaves none that a later run could take for whole.

    Args:
        path: the archive.
        folder: each file's name is relative to it.
        wanted: told a name such as "dev/newstest2013.en", says whether to write that file.

    Raises:
        UserError: if the archive is broken, or a wanted file would lie outside `folder`.
    """
    path, folder = pathlib.Path(path), pathlib.Path(folder)
    with tempfile.TemporaryDirectory(suffix=INCOMPLETE, dir=folder) as unfinished:
        try:
            (_unzip if path.suffix == ".zip" else _untar)(path, unfinished, wanted)
        except (*_BROKEN, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UserError(
                f"Expected {path} to be a whole archive, whose files belong into one folder. "
                f"Received: {error}. Delete it and try again."
            ) from error
        files = [file for file in sorted(pathlib.Path(unfinished).rglob("*")) if file.is_file()]
        names = [file.relative_to(unfinished).as_posix() for file in files]
        for name, file in zip(names, files, strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, folder / name)
    return names


def _unzip(path: pathlib.Path, folder: str, wanted: Callable[[str], bool]) -> None:
    with zipfile.ZipFile(path) as archive:
        every = [info for info in archive.infolist() if not info.is_dir()]
        for info in progress.track(every, f"Reading {path}", len(every), "files"):
            if wanted(posixpath.normpath(info.filename)):
                archive.extract(info, folder)  # which writes nothing outside


def _untar(path: pathlib.Path, folder: str, wanted: Callable[[str], bool]) -> None:
    size = path.stat().st_size
    with open(path, "rb") as packed, progress.report(f"Reading {path}", size) as advance:
        with tarfile.open(fileobj=packed) as archive:
            seen = 0
            for info in archive:
                if info.isreg() and wanted(posixpath.normpath(info.name)):
                    archive.extract(info, folder, filter="data")
                advance(packed.tell() - seen)
                seen = packed.tell()
            while archive.fileobj.read(1 << 20):  # to the checksum at the end
                pass
