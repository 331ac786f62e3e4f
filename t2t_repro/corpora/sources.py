"""The files of a corpus: in the folder of raw files, in an archive there, or behind a URL."""

import dataclasses
import fnmatch
import functools
import importlib.resources
import lzma
import os
import pathlib
import posixpath
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora import downloads
from t2t_repro.errors import UserError
from t2t_repro.files import scratch_folder, writing
from t2t_repro.text import raw

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError)


@dataclasses.dataclass(frozen=True)
class RawFile:
    """A missing file that a problem needs in the folder of raw files.

    Attributes:
        name: in the folder.
        url: its origin; "": the user has to put it there.
        size: bytes; 0: unknown.
    """

    name: str
    url: str = ""
    size: int = 0


@functools.cache
def published() -> dict[str, tuple[int, str]]:
    """Returns {URL: (bytes, SHA-256)}: the servers' lengths, and the checksums that
    tensorflow-datasets 4.9 has (url_checksums/), and Multi30k's."""
    text = importlib.resources.files(__package__).joinpath("published.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {url: (int(size), digest) for url, size, digest in rows}


def missing_archives(tmp_dir: str, datasets: Iterable[Any]) -> list[RawFile]:
    """Returns the archives that are missing, like their files, once each.

    Args:
        tmp_dir: the folder of the raw files.
        datasets: as `parallel.compile_data` takes them.
    """
    found = {}
    for url, files in datasets:
        names, there = _unpacked(tmp_dir, files)
        name = os.path.basename(url)
        if len(there) < len(names) and not (name and pathlib.Path(tmp_dir, name).exists()):
            name = name or ", ".join(names)
            found[name] = RawFile(name, url if "://" in url else "", published().get(url, (0,))[0])
    return list(found.values())


def files_there(tmp_dir: str, datasets: Iterable[Any]) -> list[pathlib.Path]:
    """Returns the files that exist unpacked in the folder; arguments as `missing_archives`."""
    return [path for _, files in datasets for path in _unpacked(tmp_dir, files)[1]]


def _unpacked(tmp_dir: str, files: Sequence[Any]) -> tuple[Sequence[str], list[pathlib.Path]]:
    """Returns the names of a dataset's files, or their pattern, and those that lie there."""
    kind, *rest = files
    if kind == "tsv":
        return rest[-1:], sorted(pathlib.Path(tmp_dir).glob(rest[-1]))
    names = rest if kind == "tmx" else files
    return names, [path for name in names if (path := _find(tmp_dir, name))]


def maybe_download(directory: str | os.PathLike, filename: str, uri: str) -> str:
    """Returns the path of `filename` in `directory`; gets it from `uri` if it is not there."""
    path = pathlib.Path(directory, filename)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if uri.startswith(("http://", "https://", "ftp://")):
            downloads.download(uri, path, published().get(uri, (0, None))[1])
        else:
            with open(uri, "rb") as source, writing(path, "wb") as target:
                shutil.copyfileobj(source, target)
    return os.fspath(path)


def gunzip_file(gz_path: str | os.PathLike, new_path: str | os.PathLike) -> None:
    """Unpacks a gzip file, unless that is done already.

    Raises:
        UserError: if it is broken; nothing is written then.
    """
    if not os.path.exists(new_path):
        with raw.opened(gz_path) as source, writing(new_path, "wb") as target:
            shutil.copyfileobj(source, target)


def corpus_files(
    tmp_dir: str, url: str, names: Sequence[str], archive: str = ""
) -> list[pathlib.Path]:
    """Returns the paths of files, plain or packed (.gz).

    If one of the files is missing, the archive is searched in `tmp_dir` or downloaded into it; only
    these files are unpacked.

    Args:
        tmp_dir: the folder of the raw files.
        url: of the archive, or of the one file; or a file's name, for what lies there.
        names: below `tmp_dir`, as in the archive.
        archive: its name, where the URL does not end with it.

    Raises:
        UserError: if they cannot be found, or the archive is broken.
    """
    missing = {name for name in names if _find(tmp_dir, name) is None}
    if missing:
        _unpack(tmp_dir, url, archive or os.path.basename(url), missing.__contains__)
    return [_find(tmp_dir, name) or raw.required(tmp_dir, name) for name in names]


def _find(tmp_dir: str, name: str) -> pathlib.Path | None:
    """Returns the file NAME; or NAME.gz, from which T2T makes NAME."""
    return raw.find(tmp_dir, name.removesuffix(".gz"))


def matching_files(tmp_dir: str, url: str, pattern: str) -> list[pathlib.Path]:
    """Returns the paths that match a glob pattern, in order; as `corpus_files`."""
    folder = pathlib.Path(tmp_dir)
    if not any(folder.glob(pattern)):
        _unpack(tmp_dir, url, os.path.basename(url), lambda n: fnmatch.fnmatchcase(n, pattern))
    if paths := sorted(folder.glob(pattern)):
        return paths
    raise UserError(f"Expected files {pattern!r} in {tmp_dir!r} or {url!r}. Received: none.")


def _unpack(tmp_dir: str, url: str, name: str, wanted: Callable[[str], bool]) -> None:
    path = pathlib.Path(tmp_dir, name)
    if "://" in url:
        maybe_download(tmp_dir, name, url)
    if not path.is_file() or wanted(name):
        return
    if path.name.endswith(ARCHIVES) or tarfile.is_tarfile(path):
        extract(path, tmp_dir, wanted)


def extract(
    path: str | os.PathLike, folder: str | os.PathLike, wanted: Callable[[str], bool]
) -> None:
    """Writes the wanted files of an archive into `folder`.

    The files get their names when the whole archive has been read and its checksum is right, so
    that a broken archive or a kill leaves none.

    Args:
        path: the archive.
        folder: each file's name is relative to it.
        wanted: whether to write the file of a name such as "dev/newstest2013.en".

    Raises:
        UserError: if the archive is broken, or a wanted file would lie outside `folder`.
    """
    path, folder = pathlib.Path(path), pathlib.Path(folder)
    with scratch_folder(folder / f"{path.name}.files") as unfinished:
        try:
            (_unzip if path.suffix == ".zip" else _untar)(path, str(unfinished), wanted)
        except (*_BROKEN, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UserError(
                f"Expected {path} to be an intact archive, with no paths outside its own folder. "
                f"Received: {error}. Delete the archive, and run again."
            ) from error
        for file in filter(pathlib.Path.is_file, sorted(unfinished.rglob("*"))):
            to = folder / file.relative_to(unfinished)
            to.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, to)


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
                name = posixpath.normpath(info.name).lstrip("/")
                if wanted(name) and info.isreg() and (content := archive.extractfile(info)):
                    if name.startswith("../"):  # extract(filter=) came with Python 3.11.4
                        raise tarfile.TarError(f"{info.name!r} lies outside")
                    with writing(pathlib.Path(folder, name), "wb") as file:
                        shutil.copyfileobj(content, file)
                advance(packed.tell() - seen)
                seen = packed.tell()
            while archive.fileobj.read(1 << 20):  # to the checksum at the end
                pass
