"""tf.train.Example, the records of T2T's files, by protobuf and without TensorFlow.

t2t-datagen and each of its processes start in a moment this way, and the JAX backend reads so.
TensorFlow's own parser, which makes whole batches in C++, is several times as fast.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format

Example = Mapping[str, Sequence[int]]

# tensorflow/core/example/example.proto and feature.proto, as far as they are about integers.
_SCHEMA = """
name: "example.proto" package: "tensorflow" syntax: "proto3"
message_type {
  name: "Int64List"
  field { name: "value" number: 1 type: TYPE_INT64 label: LABEL_REPEATED }
}
message_type {
  name: "Feature"
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".tensorflow.Int64List" }
}
message_type {
  name: "Features"
  field {
    name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry"
  }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".tensorflow.Feature" }
  }
}
message_type {
  name: "Example"
  field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".tensorflow.Features" }
}
"""
_pool = descriptor_pool.DescriptorPool()  # not the one in which TensorFlow registers its own
_pool.AddSerializedFile(
    text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()).SerializeToString()
)
_Example = message_factory.GetMessageClass(_pool.FindMessageTypeByName("tensorflow.Example"))


def serialize(example: Example) -> bytes:
    """Returns {"inputs": ids, "targets": ids, ...} as a tf.train.Example, features in order."""
    made = _Example()
    for name, ids in example.items():
        made.features.feature[name].int64_list.value.extend(ids)
    return made.SerializeToString(deterministic=True)


def lists(record: bytes) -> dict[str, list[int]]:
    """Returns {feature: ids} of a record.

    Raises:
        ValueError: if it is no tf.train.Example.
    """
    return {name: list(feature.int64_list.value) for name, feature in _features(record).items()}


def parse(
    records: Sequence[bytes], features: Sequence[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns {feature: (all ids of all records int64, how many are each record's)}.

    Raises:
        ValueError: if one is no tf.train.Example.
    """
    parsed, columns = list(map(_features, records)), {}
    for name in features:
        values = [of_record[name].int64_list.value for of_record in parsed]
        lengths = np.array(list(map(len, values)), np.int64)
        ids = np.fromiter(itertools.chain.from_iterable(values), np.int64, int(lengths.sum()))
        columns[name] = ids, lengths
    return columns


def padded(ids: np.ndarray, lengths: np.ndarray, cut: int) -> np.ndarray:
    """Returns the lists of `parse` as the rows of int32 (B, longest), 0 behind their ends.

    No row is longer than `cut`.
    """
    kept = np.minimum(lengths, cut)
    rows = np.zeros((len(lengths), int(kept.max(initial=0))), "int32")
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows[np.arange(rows.shape[1]) < kept[:, None]] = ids[place < cut]
    return rows


def _features(record: bytes):
    try:
        return _Example.FromString(record).features.feature
    except message.DecodeError as error:
        raise ValueError(str(error)) from None
