"""tf.train.Example records and the frames of a TFRecord file, written without TensorFlow.

t2t-datagen and each of its processes start in a moment this way. A frame is

    length (uint64, little endian) | checksum of the length | record | checksum of the record

and a checksum is the record's CRC-32C, rotated and shifted (tensorflow/core/lib/hash/crc32c.h).
"""

import functools
import operator
import struct
from collections.abc import Iterator, Mapping, Sequence

import google_crc32c

from t2t_repro.errors import UserError

Example = Mapping[str, Sequence[int]]

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_HEADER = _LENGTH.size + _CHECKSUM.size
_SMALL = 1 << 16  # ids below have their bytes in a table


def serialize(example: Example) -> bytes:
    """Returns {"inputs": ids, "targets": ids, ...} as a tf.train.Example, features in order."""
    small = _small_varints()
    entries = b""
    for name, ids in sorted(example.items()):
        if not ids:
            raise UserError(f"Expected ids for the feature {name!r}. Received: none, in {example}.")
        try:
            usual = min(ids) >= 0 and max(ids) < _SMALL
            values = b"".join(map(small.__getitem__ if usual else _varint, ids))
        except (TypeError, OverflowError):
            raise UserError(
                f"Expected whole numbers of 64 bits in the feature {name!r}. Received: {ids}."
            ) from None
        # Int64List.value, packed; Feature.int64_list; the map's key and value; Features.feature
        feature = _field(b"\x1a", _field(b"\x0a", values))
        entry = _field(b"\x0a", name.encode("utf-8")) + _field(b"\x12", feature)
        entries += _field(b"\x0a", entry)
    return _field(b"\x0a", entries)


def frames(records: Sequence[bytes]) -> list[bytes]:
    """Returns the records as a TFRecord file holds them, each in its frame."""
    return list(map(_frame, records))


def _frame(record: bytes) -> bytes:
    length = _LENGTH.pack(len(record))
    head = length + _CHECKSUM.pack(masked_crc(length))
    return head + record + _CHECKSUM.pack(masked_crc(record))


def bounds(file: bytes) -> Iterator[int]:
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


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A protocol buffer's number: seven bits a byte, the lowest first, and a 1 before if more."""
    number = operator.index(number)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError
    number &= (1 << 64) - 1
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


@functools.cache
def _small_varints() -> list[bytes]:
    return [_varint(number) for number in range(_SMALL)]


def masked_crc(content: bytes) -> int:
    """Returns the checksum of some bytes, as a frame has it."""
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
