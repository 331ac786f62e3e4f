import pytest
import tensorflow as tf

from t2t_repro.data import index, records
from t2t_repro.errors import UserError
from tests.data.record_files import read_examples, write_examples

EXAMPLES = [{"inputs": [2 + n, 300, 1], "targets": [70000 + n, 1]} for n in range(40)]


def test_examples_come_back_in_order(tmp_path):
    path = tmp_path / "x-train-00000-of-00001"
    write_examples(path, EXAMPLES)
    assert list(read_examples(path)) == EXAMPLES
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_bytes_are_those_of_tensorflow(tmp_path):
    examples = [*EXAMPLES, {"inputs": [0, -1, 2**63 - 1, -(2**63)], "targets": [7] * 3000}]
    write_examples(tmp_path / "ours", examples)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for example in examples:
            message = tf.train.Example()
            for name, ids in example.items():
                message.features.feature[name].int64_list.value.extend(ids)
            writer.write(message.SerializeToString(deterministic=True))
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_broken_file_is_named(tmp_path, damage):
    path = tmp_path / "broken"
    write_examples(path, EXAMPLES)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        del content[-10:]
    else:
        content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"Expected {path} to be a whole TFRecord file"):
        index.read([str(path)])


def test_other_records_are_named(tmp_path):
    with pytest.raises(UserError):
        with records.reading("file-name"):
            tf.io.parse_example([b"\xff\xff"], {"inputs": tf.io.RaggedFeature(tf.int64)})


def test_find_shards(problem, write_split, tmp_path):
    command = f"t2t-datagen --problem=bytes --data_dir={tmp_path}"
    with pytest.raises(UserError, match=f"bytes-train-.* Received: none. Make them: {command}"):
        records.find_shards(problem, "train", tmp_path)
    with pytest.raises(UserError):
        records.find_shards(problem, "train", tmp_path / "nowhere")
    write_split([(2, 2)] * 6, shards=3)
    (tmp_path / "bytes-train-00000-of-00003.incomplete").touch()
    (tmp_path / "bytes-trainer-00000-of-00009").touch()
    expected = [str(tmp_path / f"bytes-train-0000{n}-of-00003") for n in range(3)]
    assert records.find_shards(problem, "train", tmp_path) == expected
    (tmp_path / "bytes-train-00001-of-00003").unlink()
    with pytest.raises(UserError, match="1"):
        records.find_shards(problem, "train", tmp_path)
    write_split([(2, 2)], shards=2)
    with pytest.raises(UserError, match="2"):
        records.find_shards(problem, "train", tmp_path)
