"""Small TFRecord files for tests, written and read."""

import pathlib

from t2t_repro.data import tfrecord


def write_examples(path, examples):
    """Writes a file of {"inputs": ids, "targets": ids}."""
    frames = (tfrecord.frame(tfrecord.serialize(example)) for example in examples)
    pathlib.Path(path).write_bytes(b"".join(frames))


def read_examples(path):
    """Returns a file's examples as {feature: ids}."""
    return list(map(tfrecord.lists, tfrecord.read(path)))
