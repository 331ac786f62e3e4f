"""TFRecord files as T2T writes them, without TensorFlow: their names, frames and records.

A frame is

    length (uint64, little endian) | checksum of the length | record | checksum of the record

and a checksum is the record's CRC-32C, rotated and shifted (tensorflow/core/lib/hash/crc32c.h). A
record is a tf.train.Example with the int64 features inputs and targets, by protobuf.
"""

import itertools
import os
import pathlib
import re
import struct
from collections.abc import Mapping, Sequence

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from t2t_repro.errors import UserError
from t2t_repro.problem import Problem

Example = Mapping[str, Sequence[int]]

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size

# tensorflow/core/example/example.proto and feature.proto, as far as they are about integers.
_SCHEMA = """
name: "example.proto" package: "tensorflow" syntax: "proto3"
message_type { name: "Int64List"
  field { name: "value" number: 1 type: TYPE_INT64 label: LABEL_REPEATED }
}
message_type { name: "Feature"
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".tensorflow.Int64List" }
}
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".tensorflow.Feature" } }
}
message_type { name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".tensorflow.Features" }
}
"""
_pool = descriptor_pool.DescriptorPool()  # not the one in which TensorFlow registers its own
_pool.AddSerializedFile(
    text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()).SerializeToString()
)
_Example = message_factory.GetMessageClass(_pool.FindMessageTypeByName("tensorflow.Example"))


def serialize(example: Example) -> bytes:
    """Returns {"inputs": ids, "targets": ids, ...} as a tf.train.Example, features in order."""
    made = _Example()
    for name, ids in example.items():
        made.features.feature[name].int64_list.value.extend(ids)
    return made.SerializeToString(deterministic=True)


def lists(record: bytes) -> dict[str, list[int]]:
    """Returns {feature: ids} of a record."""
    features = _Example.FromString(record).features.feature
    return {name: list(feature.int64_list.value) for name, feature in features.items()}


def arrays(path: str | os.PathLike, features: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of a file, and how many each feature of each record has.

    Returns:
        int64 (N,), record by record and feature by feature; int32 (R, F).

    Raises:
        UserError: if the file is corrupt.
        google.protobuf.message.DecodeError: if it holds other records.
    """
    parsed = [_Example.FromString(record).features.feature for record in read(path)]
    values = [record[name].int64_list.value for record in parsed for name in features]
    lengths = np.fromiter(map(len, values), np.int32, len(values))
    ids = np.fromiter(itertools.chain.from_iterable(values), np.int64, int(lengths.sum()))
    return ids, lengths.reshape(-1, len(features))


def frame(record: bytes) -> bytes:
    """Returns a record as a TFRecord file holds it."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _checksum(length), record, _checksum(record)))


def read(path: str | os.PathLike) -> list[bytes]:
    """Returns a file's records; raises as `split`."""
    return split(pathlib.Path(path).read_bytes(), path)


def split(file: bytes, name: str | os.PathLike) -> list[bytes]:
    """Returns the records of the bytes of a file of that name.

    Raises:
        UserError: if it is truncated, or a checksum is not that of its bytes.
    """
    records: list[bytes] = []
    start = 0
    while start < len(file):
        begin = start + _HEADER
        end = begin + int.from_bytes(file[start : start + _LENGTH.size], "little")
        records.append(file[begin:end])
        if file[start : end + _CHECKSUM.size] != frame(records[-1]):
            raise UserError(
                f"Expected {os.fspath(name)} to be a complete TFRecord file. Received: a truncated "
                f"or corrupt file, from record {len(records) - 1} at byte {start}. Make the file "
                "again: t2t-datagen --overwrite."
            )
        start = end + _CHECKSUM.size
    return records


def _checksum(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def shard_sets(problem: Problem, split: str, data_dir: str | os.PathLike) -> dict[int, list[str]]:
    """Returns the split's files in `data_dir`: {number of files in the set: those there}."""
    folder = pathlib.Path(data_dir).expanduser()
    base = re.escape(f"{problem.dataset_filename()}-{split}")
    sets: dict[int, list[str]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := re.fullmatch(base + r"-\d{5}-of-(\d{5})", path.name):
            sets.setdefault(int(match[1]), []).append(str(path))
    return sets


def are_there(problem: Problem, data_dir: str | os.PathLike) -> bool:
    """Whether all splits of a problem have their files in `data_dir`."""
    splits = [entry["split"] for entry in problem.dataset_splits]
    sets = (shard_sets(problem, split, data_dir).items() for split in splits)
    return all(any(len(paths) == total for total, paths in each) for each in sets)


def find_shards(problem: Problem, split: str, data_dir: str | os.PathLike) -> list[str]:
    """Returns the files of a split in order.

    Raises:
        UserError: if there is none, or one of a set is missing, or sets of different sizes lie
            beside each other.
    """
    sets = shard_sets(problem, split, data_dir)
    where = f"{problem.dataset_filename()}-{split}-* in {os.fspath(data_dir)!r}"
    command = problem.datagen_command(data_dir)
    if len(sets) != 1:
        there = f"sets of {' and of '.join(map(str, sets))} files" if sets else "none"
        fix = f"Make the files: {command}{' --overwrite' if sets else ''}"
        if split not in [entry["split"] for entry in problem.dataset_splits]:
            fix = f"{problem.name} has no {split} split; to decode a file, give --decode_from_file."
        raise UserError(f"Expected one set of files {where}. Received: {there}. {fix}")
    ((total, found),) = sets.items()
    paths = problem.filepaths(split, pathlib.Path(data_dir).expanduser(), total)
    if missing := [os.path.basename(path) for path in paths if path not in found]:
        raise UserError(
            f"Expected all {total} files {where}. Received: {len(missing)} are missing (first: "
            f"{missing[0]}). Make the files: {command}"
        )
    return paths
