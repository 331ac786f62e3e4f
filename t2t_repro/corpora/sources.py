"""The files of a corpus: in the folder of raw files, in an archive there, or behind a URL."""

import dataclasses
import fnmatch
import os
import pathlib
import shutil
import tarfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from t2t_repro.corpora import archives, downloads
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw

# The published checksums, by URL: those that tensorflow-datasets 4.9 has (url_checksums/).
SHA256 = {
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": (
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5"
    ),
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": (
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7"
    ),
    "http://www.statmt.org/wmt13/training-parallel-un.tgz": (
        "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47"
    ),
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz": (
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485"
    ),
    "http://www.statmt.org/wmt10/training-giga-fren.tar": (
        "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a"
    ),
    "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz": (
        "17992b7e919cfb754c60f4e754148bc23b80706ad0ed7b34150831a554b40c91"
    ),
    "http://data.statmt.org/wmt19/translation-task/dev.tgz": (
        "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7"
    ),
}
# What their servers announce.
BYTES = {
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": 918_311_367,
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": 657_632_379,
    "http://www.statmt.org/wmt13/training-parallel-un.tgz": 2_365_634_246,
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz": 80_418_416,
    "http://www.statmt.org/wmt10/training-giga-fren.tar": 2_595_102_720,
    "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz": 113_157_482,
    "http://data.statmt.org/wmt19/translation-task/dev.tgz": 38_654_961,
}


@dataclasses.dataclass(frozen=True)
class RawFile:
    """A file that a problem needs in the folder of raw files, where it is not yet.

    Attributes:
        name: in the folder.
        url: where it is downloaded from; "": somebody has to put it there.
        size: bytes; 0: unknown.
    """

    name: str
    url: str = ""
    size: int = 0


def missing_archives(tmp_dir: str, datasets: Iterable[Any]) -> list[RawFile]:
    """Returns the archives, once each, of which neither they nor their files are there.

    Args:
        tmp_dir: the folder of the raw files.
        datasets: as `parallel.compile_data` takes them.
    """
    found = {}
    for url, (kind, *rest) in datasets:
        if kind == "tsv":
            files = rest[-1:]
            unpacked = any(pathlib.Path(tmp_dir).glob(files[0]))
        else:
            files = rest if kind == "tmx" else [kind, *rest]
            unpacked = all(_find(tmp_dir, name) for name in files)
        name = os.path.basename(url)
        if not unpacked and not (name and pathlib.Path(tmp_dir, name).exists()):
            name = name or ", ".join(files)
            found[name] = RawFile(name, url if "://" in url else "", BYTES.get(url, 0))
    return list(found.values())


def files_there(tmp_dir: str, datasets: Iterable[Any]) -> list[pathlib.Path]:
    """Returns those of the files that lie in the folder, unpacked; as `missing_archives`."""
    found: list[pathlib.Path | None] = []
    for _, (kind, *rest) in datasets:
        if kind == "tsv":
            found += pathlib.Path(tmp_dir).glob(rest[-1])
        else:
            found += [_find(tmp_dir, name) for name in (rest if kind == "tmx" else [kind, *rest])]
    return [path for path in found if path]


def maybe_download(directory: str | os.PathLike, filename: str, uri: str) -> str:
    """Returns the path of `filename` in `directory`; gets it from `uri` if it is not there."""
    path = pathlib.Path(directory, filename)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if uri.startswith(("http://", "https://", "ftp://")):
            downloads.download(uri, path, SHA256.get(uri))
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
        with raw.unpacked(gz_path) as source, writing(new_path, "wb") as target:
            shutil.copyfileobj(source, target)


def corpus_files(
    tmp_dir: str, url: str, names: Sequence[str], archive: str = ""
) -> list[pathlib.Path]:
    """Returns the paths of files, plain or packed (.gz).

    The archive is looked for in `tmp_dir`, or else downloaded into it, only if one of the files is
    not there; only these are taken out of it.

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
    paths = [_find(tmp_dir, name) for name in names]
    return [path or raw.required(tmp_dir, name) for path, name in zip(paths, names, strict=True)]


def _find(tmp_dir: str, name: str) -> pathlib.Path | None:
    """Returns the file NAME; or NAME.gz, from which T2T makes NAME."""
    return raw.find(tmp_dir, name.removesuffix(".gz"))


def matching_files(tmp_dir: str, url: str, pattern: str) -> list[pathlib.Path]:
    """Returns the paths that match a glob pattern, in order; as `corpus_files`."""
    folder = pathlib.Path(tmp_dir)
    if not any(folder.glob(pattern)):
        name = os.path.basename(url)
        _unpack(tmp_dir, url, name, lambda member: fnmatch.fnmatchcase(member, pattern))
    if not any(folder.glob(pattern)):
        archive = f" or in {url}" if url else ""
        raise UserError(
            f"Expected files {pattern!r} in {tmp_dir!r}{archive}. Received: none. Correct the "
            "pattern of the dataset."
        )
    return sorted(folder.glob(pattern))


def _unpack(tmp_dir: str, url: str, name: str, wanted: Callable[[str], bool]) -> None:
    path = pathlib.Path(tmp_dir, name)
    if "://" in url:
        maybe_download(tmp_dir, name, url)
    if not path.is_file() or wanted(name):
        return
    if archives.is_archive(path) or tarfile.is_tarfile(path):
        downloads.verify(path, SHA256.get(url))
        archives.extract(path, tmp_dir, wanted)


def present(path: str | os.PathLike) -> pathlib.Path:
    """Returns the path of a file, or of the same with .gz behind its name.

    Raises:
        UserError: if there is neither.
    """
    path = pathlib.Path(path)
    return path if path.exists() else raw.required(path.parent, path.name)
