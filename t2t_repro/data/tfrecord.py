"""The frames of a TFRecord file, written and read without TensorFlow. A frame is

    length (uint64, little endian) | checksum of the length | record | checksum of the record

and a checksum is the record's CRC-32C, rotated and shifted (tensorflow/core/lib/hash/crc32c.h).
"""

import collections
import contextlib
import mmap
import os
import pathlib
import struct
from collections.abc import Iterable, Iterator

import google_crc32c

from t2t_repro.errors import UserError

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size


def frames(records: Iterable[bytes]) -> list[bytes]:
    """Returns the records as a TFRecord file holds them, each in its frame."""
    return list(map(_frame, records))


def bounds(file: bytes | mmap.mmap) -> Iterator[int]:
    """Yields where each frame of a TFRecord file's bytes begins, and where the last one ends."""
    start = 0
    yield start
    while start < len(file):
        (length,) = _LENGTH.unpack_from(file, start)
        start += _HEADER + length + _CHECKSUM.size
        yield start


def content(frame: bytes) -> bytes:
    """Returns the record in a frame."""
    return frame[_HEADER : -_CHECKSUM.size]


def check(path: str | os.PathLike) -> None:
    """Checks that the frames of a file, by their lengths alone, end where the file does.

    TensorFlow's reader believes a length, and ends by a signal where it is enormous; a rest that is
    shorter than a header is the end for it.

    Raises:
        UserError: if they do not; see `read`.
    """
    size, end = os.path.getsize(path), 0
    if not size:
        return  # it cannot be mapped
    with open(path, "rb") as stream, contextlib.suppress(struct.error):
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as file:
            (end,) = collections.deque(bounds(file), maxlen=1)
    if end != size:
        read(path)  # it says where


def read(path: str | os.PathLike) -> list[bytes]:
    """Returns a file's records.

    Raises:
        UserError: if it is truncated, or a checksum is not that of its bytes.
    """
    file = pathlib.Path(path).read_bytes()
    records: list[bytes] = []
    start = 0
    while start < len(file):
        ends = f"it ends in the frame that begins at byte {start}, of record {len(records)}"
        left = len(file) - start
        if left < _HEADER:
            raise _broken(path, f"{ends}, after {left} of the {_HEADER} bytes of its header")
        length = file[start : start + _LENGTH.size]
        if _CHECKSUM.unpack_from(file, start + _LENGTH.size) != (_crc(length),):
            raise _broken(path, f"the length at byte {start} is not what was written")
        begin = start + _HEADER
        end = begin + _LENGTH.unpack(length)[0]
        if end + _CHECKSUM.size > len(file):
            raise _broken(path, f"{ends}, after {left} of its {end - start + _CHECKSUM.size} bytes")
        records.append(file[begin:end])
        if _CHECKSUM.unpack_from(file, end) != (_crc(records[-1]),):
            number = len(records) - 1
            raise _broken(path, f"the bytes of record {number} are not what was written")
        start = end + _CHECKSUM.size
    return records


def _frame(record: bytes) -> bytes:
    length = _LENGTH.pack(len(record))
    head = length + _CHECKSUM.pack(_crc(length))
    return head + record + _CHECKSUM.pack(_crc(record))


def _crc(content: bytes) -> int:
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _broken(path: str | os.PathLike, how: str) -> UserError:
    return UserError(
        f"Expected {os.fspath(path)} to be a whole TFRecord file. Received: a truncated or corrupt "
        f"one ({how}). Make it again by t2t-datagen --overwrite."
    )
