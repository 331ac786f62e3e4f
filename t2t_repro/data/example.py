"""TFRecord files read without TensorFlow: their frames, and the ids of a tf.train.Example.

It is how the JAX backend reads. TensorFlow's own reader, in C++, is several times as fast.
"""

import os
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from t2t_repro.data import tfrecord
from t2t_repro.errors import UserError

_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_PACKED, _VARINT = 2, 0  # kinds of protocol buffer fields
_SKIPPED = {1: 8, 5: 4}  # bytes of the other kinds


def read_records(path: str | os.PathLike) -> list[bytes]:
    """Returns a file's records.

    Raises:
        UserError: if it is truncated, or a checksum is not that of its bytes.
    """
    with open(path, "rb") as file:
        content = file.read()
    records: list[bytes] = []
    start = 0
    while start < len(content):
        end = start + _HEADER.size
        if end > len(content):
            raise _broken(path, f"it ends in the frame that begins at byte {start}")
        length, of_length = _HEADER.unpack_from(content, start)
        if of_length != tfrecord.masked_crc(content[start : start + 8]):
            raise _broken(path, f"the length at byte {start} is not what was written")
        if end + length + _FOOTER.size > len(content):
            raise _broken(path, f"it ends in the frame that begins at byte {start}")
        record = content[end : end + length]
        if _FOOTER.unpack_from(content, end + length) != (tfrecord.masked_crc(record),):
            raise _broken(path, f"the bytes of record {len(records)} are not what was written")
        records.append(record)
        start = end + length + _FOOTER.size
    return records


def parse(
    records: Sequence[bytes], features: Sequence[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns {feature: (all ids of all records int64, how many are each record's)}.

    Raises:
        ValueError: if one is no tf.train.Example.
    """
    parsed = [_int64_lists(record) for record in records]
    return {name: _numbers([lists.get(name, b"") for lists in parsed]) for name in features}


def padded(ids: np.ndarray, lengths: np.ndarray, cut: int) -> np.ndarray:
    """Returns the lists of `parse` as the rows of int32 (B, longest), 0 behind their ends.

    No row is longer than `cut`.
    """
    kept = np.minimum(lengths, cut)
    rows = np.zeros((len(lengths), int(kept.max(initial=0))), "int32")
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows[np.arange(rows.shape[1]) < kept[:, None]] = ids[place < cut]
    return rows


def _int64_lists(record: bytes) -> dict[str, bytes]:
    """Returns {feature: its ids as varints} of a tf.train.Example."""
    lists = {}
    for _, features in _fields(record, 1):  # Example.features
        for _, entry in _fields(features, 1):  # Features.feature, a map
            names = [value for _, value in _fields(entry, 1)]
            values = [value for _, value in _fields(entry, 2)]
            for _, int64_list in _fields(values[-1], 3) if values else ():  # Feature.int64_list
                ids = b"".join(value for _, value in _fields(int64_list, 1))
                lists[names[-1].decode()] = ids
    return lists


def _fields(message: bytes, wanted: int) -> Iterator[tuple[int, bytes]]:
    """Yields the kind and the bytes of each field of this number in a protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        start = position
        if kind == _PACKED:
            length, start = _varint(message, position)
            position = start + length
        elif kind == _VARINT:
            _, position = _varint(message, position)
        elif kind in _SKIPPED:
            position += _SKIPPED[kind]
        else:
            raise ValueError(f"a field of kind {kind}")
        if position > len(message):
            raise ValueError("a field that ends outside")
        if number == wanted:
            yield kind, message[start:position]


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Returns the number at a position, and where it ends."""
    number = shift = 0
    while position < len(message):
        byte = message[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise ValueError("a number without an end")


def _numbers(lists: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of all lists of varints, int64, and how many each list has."""
    data = np.frombuffer(b"".join(lists), np.uint8)
    last = data < 0x80
    ends = np.flatnonzero(last) + 1
    starts = np.concatenate([[0], ends])[:-1]
    shift = 7 * (np.arange(len(data)) - np.repeat(starts, ends - starts))
    parts = (data & 0x7F).astype(np.uint64) << shift.astype(np.uint64)
    numbers = np.add.reduceat(parts, starts) if len(starts) else parts
    until = np.concatenate([[0], np.cumsum(last)])
    borders = np.cumsum([0, *map(len, lists)])
    return numbers.astype(np.int64), np.diff(until[borders])


def _broken(path: str | os.PathLike, how: str) -> UserError:
    return UserError(
        f"Expected {os.fspath(path)} to be a whole TFRecord file. Received: a truncated or corrupt "
        f"one ({how}). Make it again by t2t-datagen --overwrite."
    )
