import pytest
import tensorflow as tf

from t2t_repro.data import tfrecord
from t2t_repro.errors import UserError
from tests.data.record_files import read_examples, write_examples

EXAMPLES = [
    *({"inputs": [2 + n, 300, 1], "targets": [70000 + n, 1]} for n in range(40)),
    {"inputs": [0, -1, 2**63 - 1, -(2**63)], "targets": [7] * 3000},
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x"
    write_examples(path, EXAMPLES)
    return path


def test_bytes_are_those_of_tensorflow(path, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for example in EXAMPLES:
            message = tf.train.Example()
            for name, ids in example.items():
                message.features.feature[name].int64_list.value.extend(ids)
            writer.write(message.SerializeToString(deterministic=True))
    assert path.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert tfrecord.read(path) == list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def test_examples_come_back_in_order(path):
    assert read_examples(path) == EXAMPLES
    ids, lengths = tfrecord.arrays(path, ["targets", "inputs"])
    assert lengths.tolist() == [[len(e["targets"]), len(e["inputs"])] for e in EXAMPLES]
    assert ids.tolist() == [i for e in EXAMPLES for i in [*e["targets"], *e["inputs"]]]


def test_numbers_one_by_one_are_read_and_other_fields_skipped(tmp_path):
    message = tf.train.Example()
    message.features.feature["text"].bytes_list.value.append(b"abc")
    message.features.feature["share"].float_list.value.extend([0.5, 0.25])
    message.features.feature["inputs"].int64_list.value.extend([7, -3])
    unpacked = b"\x0a\x10\x0a\x0e\x0a\x04more\x12\x06\x1a\x04\x08\x05\x08\x07"
    frames = map(tfrecord.frame, [message.SerializeToString(), unpacked])
    (tmp_path / "y").write_bytes(b"".join(frames))
    ids, lengths = tfrecord.arrays(tmp_path / "y", ["inputs", "more"])
    assert (ids.tolist(), lengths.tolist()) == ([7, -3, 5, 7], [[2, 0], [0, 2]])


ENORMOUS = (1 << 60).to_bytes(8, "little")


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda file, cut=cut: file[:cut] for cut in (5, 30, -3)),
        *(lambda file, at=at: file[:at] + b"\xff" + file[at + 1 :] for at in (1, 9, 20)),
        *(lambda file, more=more: file + more for more in (b"\0", b"more than a header")),
        lambda file: file + ENORMOUS + tfrecord._checksum(ENORMOUS),
    ],
)
def test_a_damaged_file_is_named(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=str(path)):
        tfrecord.read(path)


def test_find_shards(problem, write_split, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=f"t2t-datagen --problem=bytes --data_dir={folder}"):
            tfrecord.find_shards(problem, "train", folder)
    write_split([(2, 2)] * 6, shards=3)
    (tmp_path / "bytes-train-00000-of-00003.incomplete").touch()
    (tmp_path / "bytes-trainer-00000-of-00009").touch()
    expected = [str(tmp_path / f"bytes-train-0000{n}-of-00003") for n in range(3)]
    assert tfrecord.find_shards(problem, "train", tmp_path) == expected
    (tmp_path / "bytes-train-00001-of-00003").unlink()
    with pytest.raises(UserError, match="bytes-train-00001-of-00003"):
        tfrecord.find_shards(problem, "train", tmp_path)
    write_split([(2, 2)], shards=2)
    with pytest.raises(UserError, match="--overwrite"):
        tfrecord.find_shards(problem, "train", tmp_path)
