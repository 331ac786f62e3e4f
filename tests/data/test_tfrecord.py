import random
import struct

import pytest

from t2t_repro.data import tfrecord
from t2t_repro.errors import UserError


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


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"".join(tfrecord.frames([b"the first of three", b"second", b"the third"])))
    return path


@pytest.mark.parametrize("cut", [5, 30, -3])
def test_a_truncated_file_is_named(path, cut):
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError):
        tfrecord.read(path)


@pytest.mark.parametrize("byte, how", [(1, "the length at byte 0"), (20, "bytes of record 0")])
def test_a_changed_byte_is_found(path, byte, how):
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{how} .*not what was written"):
        tfrecord.read(path)


def test_its_frames_are_those_that_are_written(tmp_path):
    (tmp_path / "y").write_bytes(b"".join(tfrecord.frames([b"one", b"three"])))
    assert tfrecord.read(tmp_path / "y") == [b"one", b"three"]


@pytest.mark.parametrize("damage", [b"\0", b"garbage", b"more than a header of garbage"])
def test_frames_are_checked_by_their_lengths(path, damage):
    tfrecord.check(path)
    whole = path.read_bytes()
    path.write_bytes(whole + damage)
    with pytest.raises(UserError, match=f"at byte {len(whole)}"):
        tfrecord.check(path)
    path.write_bytes(b"")
    tfrecord.check(path)


def test_an_enormous_length_is_not_believed(path):
    length = (1 << 60).to_bytes(8, "little")
    path.write_bytes(path.read_bytes() + length + tfrecord._CHECKSUM.pack(tfrecord._crc(length)))
    with pytest.raises(UserError, match=f"after 12 of its {(1 << 60) + 16} bytes"):
        tfrecord.check(path)
