"""The ids of a split, decoded once from its TFRecords into a file that is mapped into memory.

`ids.PROBLEM-SPLIT` lies beside the records, or in the user's cache where that folder cannot be
written to. It is made anew where the size or the time of a file of records differs. So a shuffle of
all examples, exact counts and a start in mid-epoch are cheap, and no batch needs protobuf.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from t2t_repro.data import packing, tfrecord
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, writing
from t2t_repro.problem import Problem

Batch = dict[str, np.ndarray]

_END = struct.Struct("<Q")  # the size of the JSON before it, which says what the arrays are


@dataclasses.dataclass(frozen=True)
class Examples:
    """Examples in the order of their files. R is their number, N that of their ids.

    Attributes:
        ids: int32 (N,), those of all features.
        starts: {feature: int64 (R,)}, where each example's begin in `ids`.
        lengths: {feature: int32 (R,)}.
        counts: how many examples each file has.
    """

    ids: np.ndarray
    starts: dict[str, np.ndarray]
    lengths: dict[str, np.ndarray]
    counts: Sequence[int] = ()

    @classmethod
    def of(cls, lists: Mapping[str, Sequence[Sequence[int]]]) -> "Examples":
        """Returns {feature: the ids of each example} as Examples."""
        lengths = {name: np.array(list(map(len, each)), np.int32) for name, each in lists.items()}
        ends = np.cumsum(np.concatenate([*lengths.values()]), dtype=np.int64)
        ends = ends.reshape(len(lists), -1)
        starts = {name: ends[i] - lengths[name] for i, name in enumerate(lists)}
        ids = itertools.chain.from_iterable(ids for each in lists.values() for ids in each)
        return cls(np.fromiter(ids, np.int32), starts, lengths)

    def take(self, rows: np.ndarray) -> "Examples":
        """Returns some examples, by their numbers."""
        starts = {name: each[rows] for name, each in self.starts.items()}
        return Examples(self.ids, starts, {name: each[rows] for name, each in self.lengths.items()})

    def lists(self, feature: str) -> list[list[int]]:
        """Returns the ids of each example."""
        starts = self.starts[feature]
        ends = starts + self.lengths[feature]
        return [self.ids[a:b].tolist() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]

    def padded(self, most: Mapping[str, int]) -> Batch:
        """Returns {feature: int32 (R, longest)}, padded with 0, of at most `most[side]` ids."""
        batch: Batch = {}
        for name, starts in self.starts.items():
            lengths = np.minimum(self.lengths[name], most[name.partition("_")[0]])
            places = np.arange(lengths.max(initial=0))
            batch[name] = self.ids[np.minimum(starts[:, None] + places, len(self.ids) - 1)]
            batch[name][places >= lengths[:, None]] = 0
        return batch


def open_split(problem: Problem, split: str, data_dir: str | os.PathLike) -> Examples:
    """Returns the examples of a split, under the names of the features that the model sees.

    Raises:
        UserError: if files or the vocabulary are missing or corrupt, there is no record, one lacks
            a feature, or an id is not in the vocabulary.
    """
    paths = tfrecord.find_shards(problem, split, data_dir)
    seen = {name: problem.stored_feature(name) for name in packing.features(problem)}
    features, found = sorted(seen.values()), map(os.stat, paths)
    key = {"features": features, "files": [[each.st_size, each.st_mtime_ns] for each in found]}
    folder = pathlib.Path(data_dir).expanduser().absolute()
    user = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    user = user / "t2t_repro" / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    places = [where / f"ids.{problem.dataset_filename()}-{split}" for where in (folder, user)]
    mapped = _map(places[0], key) or _map(places[1], key)
    if mapped is None:
        try:
            mapped = _write(places[0], key, paths)
        except OSError:
            mapped = _write(places[1], key, paths)
    head, words = mapped
    lengths = words[len(words) - sum(head["counts"]) * len(features) :].reshape(-1, len(features))
    ends = np.cumsum(lengths, dtype=np.int64).reshape(lengths.shape)
    place = {name: features.index(seen[name]) for name in seen}
    encoders = problem.feature_encoders(os.fspath(data_dir))
    for side in packing.SIDES:
        size, largest = encoders[side].vocab_size, max(i[place[side]] for i in head["largest"])
        if largest >= size:
            vocabulary = ", ".join(problem.vocab_files(data_dir)) or "fixed"
            raise UserError(
                f"Expected ids below {size} (vocabulary: {vocabulary}) in the {side} of {split}. "
                f"Received: id {largest}. The files were made with another vocabulary; make them "
                f"again: {problem.datagen_command(data_dir)} --overwrite"
            )
    return Examples(
        words,
        {name: ends[:, i] - lengths[:, i] for name, i in place.items()},
        {name: np.ascontiguousarray(lengths[:, i]) for name, i in place.items()},
        head["counts"],
    )


def _map(path: pathlib.Path, key: dict[str, Any]) -> Any:
    """Returns what a file says of itself, and its int32; None: it is of other records."""
    try:
        with open(path, "rb") as file:
            file.seek(-_END.size, os.SEEK_END)
            (size,) = _END.unpack(file.read())
            file.seek(-_END.size - size, os.SEEK_END)
            words = file.tell() // 4
            head = json.loads(file.read(size))
            if head["key"] != key:
                return None
            return head, np.memmap(file, np.int32, "r", shape=words).view(np.ndarray)
    except (OSError, ValueError):
        return None


def _write(path: pathlib.Path, key: dict[str, Any], paths: Sequence[str]) -> Any:
    """Writes a file of these records, and returns what `_map` does of it."""
    features, lengths, largest = key["features"], [], []
    mine = f"{path.name}.{platform.node()}-"  # others may write too
    for left in path.parent.glob(f"{mine}*{INCOMPLETE}"):  # by a kill
        if not psutil.pid_exists(int(left.name[len(mine) : -len(INCOMPLETE)])):
            left.unlink(missing_ok=True)
    own = path.with_name(f"{mine}{os.getpid()}")
    with writing(own, "wb") as file:
        for each in paths:
            ids, length = tfrecord.arrays(each, features)
            _check(each, features, ids, length)
            file.write(ids.astype(np.int32).tobytes())
            lengths.append(length)
            of = np.repeat(np.tile(np.arange(len(features)), len(length)), length.ravel())
            largest.append([int(ids[of == i].max(initial=0)) for i in range(len(features))])
        counts = list(map(len, lengths))
        if not sum(counts):
            raise UserError(
                f"Expected records in {paths[0]} and the like. Received: none. Make them again by "
                "t2t-datagen --overwrite."
            )
        file.write(np.concatenate(lengths).tobytes())
        head = json.dumps({"key": key, "counts": counts, "largest": largest}).encode()
        file.write(head + _END.pack(len(head)))
    os.replace(own, path)
    return _map(path, key)


def _check(path: str, features: list[str], ids: np.ndarray, lengths: np.ndarray) -> None:
    sides = [name.rpartition("_")[0] if name.endswith(packing.KINDS) else name for name in features]
    of_side = lengths[:, [features.index(side) for side in sides]]
    if not lengths.all() or (lengths != of_side).any() or ids.min(initial=0) < 0:
        raise UserError(
            f"Expected every record of {path} to have ids from 0 on in the int64 features "
            f"{features}, those of a packed side of one length. Received: another record. Check "
            "--data_dir and --problem, or make the file again by t2t-datagen --overwrite."
        )
