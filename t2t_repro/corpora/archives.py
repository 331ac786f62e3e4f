"""Files out of .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz and .zip archives, and nothing else."""

import bz2
import contextlib
import functools
import gzip
import lzma
import os
import pathlib
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from t2t_repro import progress
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, naming
from t2t_repro.progress import Advance

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZ": bz2.open,
    b"\xfd7": lzma.open,
}
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
    *(NotImplementedError, RuntimeError),  # zipfile's, for a method or a password it has not
)


class _Member(NamedTuple):
    name: str
    is_file: bool
    link: str  # what it points to, as seen from the archive's top; "": it is no link
    is_device: bool
    open: Callable[[], Any]  # gives a file to read from, if it is a file


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
        UserError: if the archive is broken, or has any file, wanted or not, that would lie outside
            `folder`, a link that leads outside, or a device.
    """
    path, folder = pathlib.Path(path), pathlib.Path(folder)
    unfinished: dict[str, pathlib.Path] = {}
    try:
        for member in _members(path):
            name = _inside(path, member)
            if not wanted(name):
                continue
            if member.link:
                raise UserError(
                    f"Expected {name} in {path} to be a file. Received: a link to {member.link!r}. "
                    f"Unpack the archive by hand in {folder}."
                )
            if member.is_file:
                unfinished[name] = folder / (name + INCOMPLETE)
                unfinished[name].parent.mkdir(parents=True, exist_ok=True)
                with (
                    member.open() as source,
                    naming(unfinished[name]),
                    open(unfinished[name], "wb") as target,
                ):
                    shutil.copyfileobj(source, target, 1 << 20)
    except BaseException as error:
        for file in unfinished.values():
            file.unlink(missing_ok=True)
        if isinstance(error, _BROKEN) or (isinstance(error, OSError) and error.errno is None):
            raise UserError(
                f"Expected {path} to be a whole archive. Received: {error}. Delete it and try "
                "again."
            ) from error
        raise
    for name, file in unfinished.items():
        os.replace(file, folder / name)
    return list(unfinished)


def _inside(path: pathlib.Path, member: _Member) -> str:
    """Returns a member's plain name, or raises a UserError if it has no place in a folder."""
    for name in (member.name, member.link):
        plain = posixpath.normpath(name.replace("\\", "/"))
        outside = plain.startswith(("/", "../")) or plain == ".." or plain[1:2] == ":"
        if outside or member.is_device:
            what = "a device" if member.is_device else "a place outside"
            raise UserError(
                f"Expected {path} to hold files for its own folder alone. Received: {name!r}, "
                f"{what}. Do not trust this archive: delete it, and get it from its owner."
            )
    return posixpath.normpath(member.name.replace("\\", "/"))


def _members(path: pathlib.Path) -> Iterator[_Member]:
    """Yields the members; each must be opened before the next is asked for. Reads to the end."""
    with progress.report(f"Reading {path}", path.stat().st_size) as advance:
        if path.suffix == ".zip":
            yield from _zip_members(path, advance)
        else:
            yield from _tar_members(path, advance)


def _zip_members(path: pathlib.Path, advance: Advance) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            device = kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
            link = ""
            if kind == stat.S_IFLNK:
                target = archive.read(info).decode("utf-8", "replace")
                link = posixpath.join(posixpath.dirname(info.filename), target)
            file = not (info.is_dir() or link or device)
            open_file = functools.partial(archive.open, info)
            yield _Member(info.filename, file, link, device, open_file)
            advance(info.compress_size)


def _tar_members(path: pathlib.Path, advance: Advance) -> Iterator[_Member]:
    with contextlib.ExitStack() as stack:
        packed = stack.enter_context(open(path, "rb"))
        opener = _OPENERS.get(packed.read(2))
        packed.seek(0)
        stream = stack.enter_context(opener(packed)) if opener else packed
        # As a stream, from beginning to end: the way to read a packed archive once.
        archive = stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))
        seen = 0
        for info in archive:
            link = info.linkname if info.islnk() or info.issym() else ""
            if info.issym():
                link = posixpath.join(posixpath.dirname(info.name), link)
            device = not (info.isreg() or info.isdir() or link)
            open_file = functools.partial(archive.extractfile, info)
            yield _Member(info.name, info.isreg(), link, device, open_file)
            advance(packed.tell() - seen)
            seen = packed.tell()
        while stream.read(1 << 20):  # to the checksum at the end
            pass
