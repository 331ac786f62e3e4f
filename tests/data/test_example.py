import numpy as np
import pytest

from t2t_repro.data import example, tfrecord
from tests.data.record_files import write_examples

SAMPLES = [
    {"inputs": [5, 300, 1], "targets": [70_000, 1]},
    {"inputs": [2], "targets": [1 << 40, 0, 127, 128, 1]},
    {"inputs": list(range(1, 40)), "targets": [9]},
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x"
    write_examples(path, SAMPLES)
    return path


def test_it_reads_what_tensorflow_reads(path):
    import tensorflow as tf

    found = tfrecord.read(path)
    assert found == list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
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


@pytest.mark.parametrize("record", [b"\x0a", b"\x0a\x09abc", b"\x0b", b"\xff"])
def test_a_record_of_something_else_is_an_error(record):
    with pytest.raises(ValueError):
        example.parse([record], ["inputs"])


def test_format_is_that_of_t2t():
    """The bytes of an Example, as the protocol buffer's definition lays them out."""
    packed = b"\x0a\x02\x02\x01"  # Int64List.value, packed: 2, 1
    feature = b"\x1a" + bytes([len(packed)]) + packed
    entries = b""
    for name in (b"inputs", b"targets"):
        entry = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(feature)]) + feature
        entries += b"\x0a" + bytes([len(entry)]) + entry
    expected = b"\x0a" + bytes([len(entries)]) + entries
    assert example.serialize({"targets": [2, 1], "inputs": [2, 1]}) == expected
