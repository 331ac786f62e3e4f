import numpy as np
import pytest

from t2t_repro.data import example, records, tfrecord
from t2t_repro.errors import UserError

SAMPLES = [
    {"inputs": [5, 300, 1], "targets": [70_000, 1]},
    {"inputs": [2], "targets": [1 << 40, 0, 127, 128, 1]},
    {"inputs": list(range(1, 40)), "targets": [9]},
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x"
    records.write_examples(path, SAMPLES)
    return path


def test_it_reads_what_tensorflow_reads(path):
    found = example.read_records(path)
    assert found == list(records.read_records(path))
    for name in ("inputs", "targets"):
        ids, lengths = example.parse(found, ["inputs", "targets"])[name]
        assert lengths.tolist() == [len(sample[name]) for sample in SAMPLES]
        assert ids.tolist() == sum((sample[name] for sample in SAMPLES), [])


def test_it_reads_numbers_one_by_one_and_skips_other_fields():
    import tensorflow as tf

    message = tf.train.Example()
    message.features.feature["text"].bytes_list.value.append(b"abc")
    message.features.feature["share"].float_list.value.extend([0.5, 0.25])
    message.features.feature["inputs"].int64_list.value.extend([7, -3])
    unpacked = b"\x0a\x10\x0a\x0e\x0a\x04more\x12\x06\x1a\x04\x08\x05\x08\x07"
    found = example.parse([message.SerializeToString(), unpacked], ["inputs", "more"])
    assert [part.tolist() for part in found["inputs"]] == [[7, -3], [2, 0]]
    assert [part.tolist() for part in found["more"]] == [[5, 7], [0, 2]]


def test_rows_are_padded_and_cut():
    rows = example.padded(np.array([5, 6, 7, 8, 9, 2]), np.array([4, 0, 1, 1]), 3)
    assert rows.dtype == np.int32
    assert rows.tolist() == [[5, 6, 7], [0, 0, 0], [9, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("cut", [5, 30, -3])
def test_a_truncated_file_is_named(path, cut):
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError, match="x to be a whole TFRecord file.*it ends in the frame"):
        example.read_records(path)


@pytest.mark.parametrize("byte, how", [(1, "the length at byte 0"), (20, "bytes of record 0")])
def test_a_changed_byte_is_found(path, byte, how):
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{how} .*not what was written"):
        example.read_records(path)


@pytest.mark.parametrize("record", [b"\x0a", b"\x0a\x09abc", b"\x0b", b"\xff"])
def test_a_record_of_something_else_is_an_error(record):
    with pytest.raises(ValueError, match="a (field|number)"):
        example.parse([record], ["inputs"])


def test_its_frames_are_those_that_are_written(tmp_path):
    (tmp_path / "y").write_bytes(b"".join(tfrecord.frames([b"one", b"three"])))
    assert example.read_records(tmp_path / "y") == [b"one", b"three"]
