import pytest
import tensorflow as tf

from t2t_repro.data import records
from t2t_repro.errors import UserError

EXAMPLES = [{"inputs": [2 + n, 300, 1], "targets": [70000 + n, 1]} for n in range(40)]


def test_examples_come_back_in_order(tmp_path):
    path = tmp_path / "x-train-00000-of-00001"
    assert records.write_examples(path, EXAMPLES) == 40
    assert list(records.read_examples(path)) == EXAMPLES
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_format_is_that_of_t2t(tmp_path):
    """The bytes of an Example, as the protocol buffer's definition lays them out."""
    packed = b"\x0a\x02\x02\x01"  # Int64List.value, packed: 2, 1
    feature = b"\x1a" + bytes([len(packed)]) + packed
    entries = b""
    for name in (b"inputs", b"targets"):
        entry = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(feature)]) + feature
        entries += b"\x0a" + bytes([len(entry)]) + entry
    expected = b"\x0a" + bytes([len(entries)]) + entries
    assert records.serialize({"targets": [2, 1], "inputs": [2, 1]}) == expected


def test_examples_are_dealt_in_turn_and_shuffled_by_seed(tmp_path):
    def write(name, seed):
        (tmp_path / name).mkdir()
        paths = [tmp_path / name / f"x-{n}" for n in range(3)]
        with records.ShardWriter(paths, seed) as writer:
            for example in EXAMPLES:
                writer.write(example)
        assert sorted(paths) == sorted((tmp_path / name).iterdir())
        return [list(records.read_examples(path)) for path in paths]

    plain, one, again, two = write("a", None), write("b", 1), write("c", 1), write("d", 2)
    assert plain == [EXAMPLES[n::3] for n in range(3)]
    assert one == again != two

    def key(example):
        return example["inputs"]

    for shard in range(3):
        assert one[shard] != plain[shard]
        assert sorted(one[shard], key=key) == sorted(two[shard], key=key) == plain[shard]


@pytest.mark.parametrize("seed", [None, 1])
def test_an_interrupted_writer_leaves_the_old_file(tmp_path, seed):
    path = tmp_path / "x"
    records.write_examples(path, EXAMPLES[:1])

    with pytest.raises(KeyboardInterrupt), records.ShardWriter([path], seed) as writer:
        writer.write(EXAMPLES[1])
        raise KeyboardInterrupt
    assert list(records.read_examples(path)) == EXAMPLES[:1]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_an_empty_feature_is_refused():
    with pytest.raises(UserError, match="ids for the feature 'targets'. Received: none"):
        records.serialize({"inputs": [1], "targets": []})


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_broken_file_is_named(tmp_path, damage):
    path = tmp_path / "broken"
    records.write_examples(path, EXAMPLES)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        del content[-10:]
    else:
        content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"Expected {path} to be a whole TFRecord file"):
        list(records.read_examples(path))


def test_other_records_are_named(tmp_path):
    with pytest.raises(UserError, match="Expected file-name to hold tf.train.Example records"):
        with records.reading("file-name"):
            tf.io.parse_example([b"\xff\xff"], {"inputs": tf.io.RaggedFeature(tf.int64)})


def test_find_shards(problem, write_split, tmp_path):
    command = f"t2t-datagen --problem=bytes --data_dir={tmp_path}"
    with pytest.raises(UserError, match=f"bytes-train-.* Received: none. Make them: {command}"):
        records.find_shards(problem, "train", tmp_path)
    with pytest.raises(UserError, match="Received: none"):
        records.find_shards(problem, "train", tmp_path / "nowhere")
    write_split([(2, 2)] * 6, shards=3)
    (tmp_path / "bytes-train-00000-of-00003.incomplete").touch()
    (tmp_path / "bytes-trainer-00000-of-00009").touch()
    expected = [str(tmp_path / f"bytes-train-0000{n}-of-00003") for n in range(3)]
    assert records.find_shards(problem, "train", tmp_path) == expected
    (tmp_path / "bytes-train-00001-of-00003").unlink()
    with pytest.raises(UserError, match="1 of them are missing, the first is bytes-train-00001"):
        records.find_shards(problem, "train", tmp_path)
    write_split([(2, 2)], shards=2)
    with pytest.raises(UserError, match="sets of 2 and of 3 files"):
        records.find_shards(problem, "train", tmp_path)


def test_a_folder_in_a_files_place_is_named(tmp_path):
    with pytest.raises(
        UserError, match=f"{tmp_path} to be a file that can be read. Received: [^{{]+"
    ):
        list(records.read_examples(tmp_path))


def test_the_message_about_a_broken_file_has_no_graph_names(tmp_path):
    (tmp_path / "broken").write_bytes(b"hello world " * 9)
    with pytest.raises(UserError, match="corrupt one .corrupted record at 0") as caught:
        list(records.read_examples(tmp_path / "broken"))
    assert "{{" not in str(caught.value) and "[Op" not in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "nowhere" / "x"
    with pytest.raises(UserError, match=f"Expected to be able to write to '{path.parent}'. Rec"):
        records.write_examples(path, EXAMPLES)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("method", ["write", "close"])
def test_a_full_disk_leaves_the_old_files(tmp_path, monkeypatch, seed, method):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        records.write_examples(path, EXAMPLES[:1])

    class FullDisk(tf.io.TFRecordWriter):
        pass

    def fail(self, *args):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    setattr(FullDisk, method, fail)
    monkeypatch.setattr(tf.io, "TFRecordWriter", FullDisk)
    with pytest.raises(UserError, match="write to .*No space left on device. Free some space"):
        with records.ShardWriter(paths, seed) as writer:
            writer.write(EXAMPLES[1])
    assert sorted(tmp_path.iterdir()) == paths
    assert [list(records.read_examples(path)) for path in paths] == [EXAMPLES[:1]] * 2
