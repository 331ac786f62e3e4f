"""What a problem's data need before they are made: existing files, downloads, disk."""

import dataclasses
import os
import pathlib

from t2t_repro.corpora.sources import RawFile
from t2t_repro.data import tfrecord
from t2t_repro.problem import Problem

# Of a pair of sentences of WMT, about; in other corpora they are shorter.
_TEXT_BYTES, _RECORD_BYTES, _IDS_BYTES = 300, 180, 240
_COPIES = 2  # of the text: unpacked, and joined


@dataclasses.dataclass(frozen=True)
class DataNeeds:
    """What the data need.

    Attributes:
        data_dir: where they are, or will be.
        tmp_dir: where the raw files are, or will be.
        files: how many exist; 0: they will be made.
        size: their bytes.
        downloads: what will be downloaded.
        missing: the missing raw files that cannot be downloaded.
        raw_disk: about how many bytes downloads and extracted files take in `tmp_dir`.
        data_disk: about how many bytes the files take in `data_dir`.
    """

    data_dir: str
    tmp_dir: str
    files: int = 0
    size: int = 0
    downloads: tuple[RawFile, ...] = ()
    missing: tuple[str, ...] = ()
    raw_disk: int = 0
    data_disk: int = 0

    @property
    def are_there(self) -> bool:
        """Whether nothing has to be made."""
        return self.files > 0

    def __str__(self) -> str:
        if self.are_there:
            return f"{self.files:,} files, {size_text(self.size)}, in {self.data_dir}"
        if self.missing:
            return f"no data in {self.data_dir}; {self.tmp_dir} lacks {', '.join(self.missing)}"
        if not self.downloads:
            return f"will be made in {self.data_dir}"
        names = ", ".join(
            f"{file.name} of {size_text(file.size)}" if file.size else file.name
            for file in self.downloads
        )
        disk = f"needs {size_text(self.raw_disk + self.data_disk)} of disk space"
        return f"will be made in {self.data_dir} from downloads to {self.tmp_dir} ({names}); {disk}"


def requirements(
    problem: Problem, data_dir: str | os.PathLike, tmp_dir: str | os.PathLike | None
) -> DataNeeds:
    """Returns what the data of a problem need.

    Args:
        problem: the problem.
        data_dir: the folder of its files.
        tmp_dir: the folder of raw files; None: nothing will be made.
    """
    problem, data_dir, raw = problem.forward(), os.fspath(data_dir), os.fspath(tmp_dir or "")
    if tmp_dir is None or tfrecord.are_there(problem, data_dir):
        splits = (entry["split"] for entry in problem.dataset_splits)
        sets = (tfrecord.shard_sets(problem, split, data_dir).values() for split in splits)
        paths = [path for each in sets for paths in each for path in paths]
        return DataNeeds(data_dir, raw, len(paths), sum(map(os.path.getsize, paths)))
    files = problem.missing_files(os.path.expanduser(raw))
    missing = tuple(file.name for file in files if not file.url)
    downloads = tuple(file for file in files if file.url)
    pairs = problem.approx_train_samples if downloads else 0
    raw_disk = sum(file.size for file in downloads) + _COPIES * _TEXT_BYTES * pairs
    data_disk = (_RECORD_BYTES + _IDS_BYTES) * pairs
    return DataNeeds(data_dir, raw, 0, 0, downloads, missing, raw_disk, data_disk)


def free(path: str | os.PathLike) -> tuple[int, int]:
    """Returns the file system on which `path` will lie, as a number, and the bytes free there."""
    folder = pathlib.Path(path).expanduser().absolute()
    while not folder.exists():
        folder = folder.parent
    status = os.statvfs(folder)
    return folder.stat().st_dev, status.f_bavail * status.f_frsize


def size_text(size: int) -> str:
    """Returns "1.7 GB" or "658 MB" or "21 kB"."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.{int(size < 100 * unit)}f} {name}"
    return f"{size / 1e3:,.0f} kB"
