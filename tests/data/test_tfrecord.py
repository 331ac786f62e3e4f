import random
import struct

import pytest

from t2t_repro.data import tfrecord
from t2t_repro.errors import UserError


def test_format_is_that_of_t2t():
    """The bytes of an Example, as the protocol buffer's definition lays them out."""
    packed = b"\x0a\x02\x02\x01"  # Int64List.value, packed: 2, 1
    feature = b"\x1a" + bytes([len(packed)]) + packed
    entries = b""
    for name in (b"inputs", b"targets"):
        entry = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(feature)]) + feature
        entries += b"\x0a" + bytes([len(entry)]) + entry
    expected = b"\x0a" + bytes([len(entries)]) + entries
    assert tfrecord.serialize({"targets": [2, 1], "inputs": [2, 1]}) == expected


def test_an_empty_feature_is_refused():
    with pytest.raises(UserError, match="ids for the feature 'targets'. Received: none"):
        tfrecord.serialize({"inputs": [1], "targets": []})


@pytest.mark.parametrize("wrong", [2**63, "word", 1.5])
def test_what_is_no_id_is_refused(wrong):
    with pytest.raises(
        UserError, match="Expected whole numbers of 64 bits in the feature 'inputs'"
    ):
        tfrecord.serialize({"inputs": [1, wrong], "targets": [1]})


def test_the_checksum_is_crc_32c():
    crc = 0xE3069283  # of these digits, by RFC 3720 and others
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    for records in ([b"123456789"], [b"123456789", b"", b"1"], [b"123456789", bytes(5000)]):
        frame = tfrecord.frames(records)[0]
        assert struct.unpack("<I", frame[-4:]) == (masked,)


def test_checksums_of_many_records_equal_those_of_one_alone():
    rng = random.Random(1)
    records = [rng.randbytes(rng.choice([1, 2, 3, 4, 5, 31, 200, 511, 512])) for _ in range(99)]
    assert tfrecord.frames(records) == [tfrecord.frames([record])[0] for record in records]
    assert tfrecord.frames([]) == []


def test_bounds_cut_a_file_into_its_frames():
    frames = tfrecord.frames([b"a", b"bcd", b""])
    bounds = list(tfrecord.bounds(b"".join(frames)))
    assert [end - start for start, end in zip(bounds, bounds[1:], strict=False)] == [17, 19, 16]
