"""tf.train.Example records and the frames of a TFRecord file, written without TensorFlow.

t2t-datagen and each of its processes start in a moment this way. A frame is

    length (uint64, little endian) | checksum of the length | record | checksum of the record

and a checksum is the record's CRC-32C, rotated and shifted (tensorflow/core/lib/hash/crc32c.h).
"""

import functools
import operator
import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t_repro.errors import UserError

Example = Mapping[str, Sequence[int]]

_CASTAGNOLI = 0x82F63B78  # CRC-32C's polynomial, bits reversed
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_SMALL = 1 << 16  # ids below have their bytes in a table
_FAR = 1 << 12  # distances to a record's end below which a byte's share of the CRC is in a table


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
    lengths = [struct.pack("<Q", len(record)) for record in records]
    checks = zip(checksums(lengths), checksums(records), strict=True)
    return [
        _HEADER.pack(len(record), of_length) + record + _FOOTER.pack(of_record)
        for record, (of_length, of_record) in zip(records, checks, strict=True)
    ]


def bounds(file: bytes) -> Iterator[int]:
    """Yields where each frame of a TFRecord file's bytes begins, and where the last one ends."""
    start = 0
    yield start
    while start < len(file):
        (length, _) = _HEADER.unpack_from(file, start)
        start += _HEADER.size + length + _FOOTER.size
        yield start


def content(frame: bytes) -> bytes:
    """Returns the record in a frame."""
    return frame[_HEADER.size : -_FOOTER.size]


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A protocol buffer's number: seven bits a byte, the lowest first, and a 1 before if more."""
    number = operator.index(number)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


@functools.cache
def _small_varints() -> list[bytes]:
    return [_varint(number) for number in range(_SMALL)]


def checksums(records: Sequence[bytes]) -> list[int]:
    """The masked CRC-32C of each record.

    A CRC is linear: it is the XOR of what each byte gives, which depends on the byte and on its
    distance from the end alone; so all bytes of all records are looked up at once.
    """
    lengths = np.array([len(record) for record in records], np.int64)
    if not lengths.all() or lengths.max(initial=0) >= _FAR:
        return [_mask(_plain_crc(record)) for record in records]
    shares = _shares(1 << int(lengths.max(initial=1)).bit_length())
    ends = np.cumsum(lengths)
    starts = ends - lengths
    data = np.frombuffer(b"".join(records), np.uint8).astype(np.int64)
    # The CRC begins as 32 ones, which is the same as ones in the first four bytes.
    distances = np.repeat(ends, lengths) - 1 - np.arange(len(data))
    crcs = np.bitwise_xor.reduceat(shares[distances, data], starts)
    crcs ^= _beginnings(len(shares))[lengths]
    return [_mask(crc) for crc in crcs.tolist()]


def _mask(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _plain_crc(record: bytes) -> int:
    table = _shares(1)[0].tolist()
    crc = 0xFFFFFFFF
    for byte in record:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@functools.cache
def _shares(count: int) -> np.ndarray:
    """[distance from the end, byte] -> what the byte gives to the CRC; (count, 256) uint32."""
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, row >> 1 ^ np.uint32(_CASTAGNOLI), row >> 1)
    first, rows = row, [row]
    for _ in range(count - 1):
        row = row >> 8 ^ first[row & 0xFF]
        rows.append(row)
    return np.stack(rows)


@functools.cache
def _beginnings(count: int) -> np.ndarray:
    """[length] -> the CRC of so many zero bytes, which each record of the length has in its own."""
    crc, found = np.uint32(0xFFFFFFFF), []
    first = _shares(1)[0]
    for _ in range(count):
        found.append(crc ^ np.uint32(0xFFFFFFFF))
        crc = crc >> np.uint32(8) ^ first[crc & np.uint32(0xFF)]
    return np.array(found, np.uint32)
