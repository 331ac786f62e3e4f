import os

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data import index, records, tfrecord
from t2t_repro.errors import UserError


def write_raw(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in examples:
            message = tf.train.Example()
            for name, ids in features.items():
                message.features.feature[name].int64_list.value.extend(ids)
            writer.write(message.SerializeToString())
    return str(path)


def test_index_and_reader_find_every_record(problem, write_split, tmp_path):
    lengths = [(2 + n % 5, 2 + n % 3) for n in range(31)]
    data_dir = write_split(lengths, shards=3)
    paths = records.find_shards(problem, "train", data_dir)
    found = index.read(paths)
    assert len(found) == 31
    in_file_order = [lengths[n] for shard in range(3) for n in range(shard, 31, 3)]
    assert found.lengths["inputs"].tolist() == [source for source, _ in in_file_order]
    assert found.lengths["targets"].tolist() == [target for _, target in in_file_order]
    expected = [record for path in paths for record in tfrecord.read(path)]
    read = index.Reader(found)
    assert read(np.arange(31)).tolist() == expected
    assert read(np.array([30, 0, 17])).tolist() == [expected[30], expected[0], expected[17]]


def test_a_reader_keeps_what_it_has_opened(tmp_path):
    path = write_raw(tmp_path / "x", [{"inputs": [5, 1], "targets": [9, 1]}])
    found = index.read([path])
    read, before = index.Reader(found), tfrecord.read(path)
    os.replace(write_raw(tmp_path / "y", [{"inputs": [7, 7, 1], "targets": [9, 1]}]), path)
    assert read(np.array([0])).tolist() == before


def test_largest_ids_are_kept_by_file(tmp_path):
    one = write_raw(tmp_path / "one", [{"inputs": [5, 1], "targets": [9, 1]}])
    two = write_raw(tmp_path / "two", [{"inputs": [7, 1], "targets": [8, 1]}])
    assert index.read([one, two]).largest_ids == {"inputs": [5, 7], "targets": [9, 8]}


def test_a_changed_file_is_read_again(tmp_path):
    path = write_raw(tmp_path / "x", [{"inputs": [1], "targets": [1]}])
    assert len(index.read([path])) == 1
    write_raw(path, [{"inputs": [1], "targets": [1]}] * 2)
    assert len(index.read([path])) == 2


def test_files_without_records_are_an_error(tmp_path):
    paths = [write_raw(tmp_path / name, []) for name in ("a", "b")]
    with pytest.raises(UserError, match="2"):
        index.read(paths)


def test_a_record_without_a_feature_is_an_error(tmp_path):
    path = write_raw(tmp_path / "x", [{"inputs": [1], "targets": [1]}, {"targets": [1]}])
    with pytest.raises(UserError, match=f"{path} .*'inputs'"):
        index.read([path])


def test_broken_files_are_named(tmp_path):
    path = write_raw(tmp_path / "x", [{"inputs": [1] * 50, "targets": [1]}] * 30)
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[:-7])
    with pytest.raises(UserError, match=path):
        index.read([path])
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"\xff not an example")
    with pytest.raises(UserError, match=path):
        index.read([path])


def test_other_records_are_named_without_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    path = write_raw(tmp_path / "x", [{"inputs": [1], "targets": [1]}])
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"\xff not an example")
    with pytest.raises(UserError, match=path):
        index.read([path])
