"""Where every record of a split lies and how long it is: one pass over the files, then any order.

The index takes 24 bytes a record (110 MB for the 4.5 million pairs of WMT14 En-De); the records
stay in their files. It makes a global shuffle, exact counts and a start in mid-epoch cheap.
"""

import concurrent.futures
import dataclasses
import functools
import mmap
import os
from collections.abc import Sequence

import keras
import numpy as np

from t2t_repro.data import example, packing, records, tfrecord
from t2t_repro.errors import UserError
from t2t_repro.process import available_cores

_HEADER, _FOOTER = 12, 4  # bytes around each record: length and its checksum; data's checksum

Version = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Index:
    """The records of some files, in file order. R is their number.

    Attributes:
        paths: the files.
        file: (R,) int32, the record's file.
        offset: (R,) int64, where its bytes begin in the file.
        size: (R,) int32, how many there are.
        lengths: {feature: (R,) int32}.
        largest_ids: {feature: the largest id in each file}.
    """

    paths: tuple[str, ...]
    file: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    lengths: dict[str, np.ndarray]
    largest_ids: dict[str, list[int]]

    def __len__(self) -> int:
        return len(self.file)


def parse(serialized, features: Sequence[str]) -> dict:
    """Returns the named features, ragged, of a batch of records (inside TensorFlow's graph)."""
    import tensorflow as tf

    return tf.io.parse_example(
        serialized, {name: tf.io.RaggedFeature(tf.int64) for name in features}
    )


def read(paths: Sequence[str], features: tuple[str, ...] = records.FEATURES) -> Index:
    """Reads files, checks every checksum, and returns their index. Unchanged files are read once.

    Args:
        paths: the files.
        features: what every record must have; those of a packed problem are as long as their side.

    Raises:
        UserError: if a file is corrupt, holds other records or none, or a record lacks a feature or
            has an id below 0.
    """
    workers = min(8, len(paths), available_cores())
    versions = tuple((status.st_size, status.st_mtime_ns) for status in map(os.stat, paths))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        one = functools.partial(_read_unchanged_file, features=features)
        parts = list(pool.map(one, paths, versions))
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    file = np.repeat(np.arange(len(paths), dtype=np.int32), [len(part["size"]) for part in parts])
    if not len(file):
        raise UserError(
            f"Expected records in {os.path.dirname(paths[0])!r}. Received: {len(paths)} files such "
            f"as {os.path.basename(paths[0])} without any. Make them again by t2t-datagen "
            "--overwrite."
        )
    lengths = {name: rows[f"{name}_length"] for name in _sides(features)}
    for name, length in lengths.items():
        if not length.all():
            path = paths[file[np.argmin(length)]]
            raise UserError(
                f"Expected every record of {path} to have ids in the int64 feature {name!r}. "
                "Received: a record without. Check --data_dir and --problem."
            )
    ids = {
        name: [int(part[f"{name}_largest"].max(initial=0)) for part in parts] for name in lengths
    }
    return Index(tuple(paths), file, rows["offset"], rows["size"], lengths, ids)


@functools.lru_cache(maxsize=4096)
def _read_unchanged_file(
    path: str, version: Version, features: tuple[str, ...]
) -> dict[str, np.ndarray]:
    del version  # part of the cache's key
    measured = _by_tensorflow if keras.backend.backend() == "tensorflow" else _by_numpy
    parts = measured(path, features)
    kinds: dict[str, type] = {"size": np.int32}
    for name in _sides(features):
        kinds |= {f"{name}_length": np.int32, f"{name}_largest": np.int64}
    rows = {
        name: np.concatenate([np.zeros(0, kind), *(np.atleast_1d(part[name]) for part in parts)])
        for name, kind in kinds.items()
    }
    rows = {name: row.astype(kinds[name]) for name, row in rows.items()}
    smallest = min((int(part[f"{n}_smallest"]) for part in parts for n in features), default=0)
    if smallest < 0:
        raise UserError(
            f"Expected no id below 0 in {path}. Received: {smallest}. Make it again by t2t-datagen "
            "--overwrite."
        )
    for part in parts:
        for name in (name for name in features if name.endswith(packing.KINDS)):
            if (part[f"{name}_length"] != part[f"{name.partition('_')[0]}_length"]).any():
                raise UserError(
                    f"Expected every record of {path} to have {name} for each id, for the problem "
                    "is packed. Received: a record without. Make it again by t2t-datagen "
                    "--overwrite."
                )
    ends = np.cumsum(rows["size"].astype(np.int64) + _HEADER + _FOOTER)
    rows["offset"] = ends - rows["size"] - _FOOTER
    return rows


def _sides(features: Sequence[str]) -> list[str]:
    """Returns the features that hold ids."""
    return [name for name in features if not name.endswith(packing.KINDS)]


def _by_tensorflow(path: str, features: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """Returns size, lengths and largest ids of a file's records, in blocks."""
    import tensorflow as tf

    def measure(serialized):
        measures = {"size": tf.strings.length(serialized)}
        for name, ids in parse(serialized, features).items():
            measures[f"{name}_length"] = ids.row_lengths()
            values = tf.concat([ids.values, [0]], 0)
            measures[f"{name}_largest"] = tf.reduce_max(values)
            measures[f"{name}_smallest"] = tf.reduce_min(values)
        return measures

    name = os.fsencode(path)  # which need not be UTF-8
    dataset = tf.data.TFRecordDataset(name, buffer_size=1 << 20).batch(1024).map(measure)
    with records.reading(path):
        return list(dataset.as_numpy_iterator())


def _by_numpy(path: str, features: Sequence[str]) -> list[dict[str, np.ndarray]]:
    """As `_by_tensorflow`, for a process without TensorFlow."""
    serialized = tfrecord.read(path)
    try:
        parsed = example.parse(serialized, features)
    except ValueError as error:
        raise UserError(
            f"Expected {path} to hold tf.train.Example records with int64 features "
            f"{' and '.join(records.FEATURES)}. Received: other records ({error}). Check "
            "--data_dir and --problem."
        ) from error
    measures = {"size": np.array([len(record) for record in serialized], np.int32)}
    for name, (ids, lengths) in parsed.items():
        measures[f"{name}_length"] = lengths
        measures[f"{name}_largest"] = ids.max(initial=0)
        measures[f"{name}_smallest"] = ids.min(initial=0)
    return [measures]


class Reader:
    """Reads records by their number in an index, through memory maps.

    The files are mapped at once: who removes or replaces them later changes nothing here.
    """

    def __init__(self, index: Index):
        self._index = index
        self._maps = list(map(_map, index.paths))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Returns the records as an array of bytes objects."""
        index = self._index
        starts = index.offset[rows].tolist()
        ends = (index.offset[rows] + index.size[rows]).tolist()
        maps = [self._maps[file] for file in index.file[rows].tolist()]
        read = np.empty(len(rows), object)
        read[:] = [m[start:end] for m, start, end in zip(maps, starts, ends, strict=True)]
        return read


def _map(path: str) -> mmap.mmap | bytes:
    with open(path, "rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return b""
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
