import pytest

from t2t_repro.problem import Problem
from t2t_repro.text.encoders import ByteTextEncoder
from tests.data.record_files import write_examples


class Bytes(Problem):
    """A problem without vocabulary file: ids 2 to 257."""

    name = "bytes"

    def feature_encoders(self, data_dir):
        return {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}


@pytest.fixture
def problem():
    return Bytes()


@pytest.fixture
def write_split(tmp_path):
    """Writes examples of given (inputs length, targets length); every example has its own ids."""

    def write(lengths, split="train", shards=3, problem=None):
        problem = problem or Bytes()
        examples = []
        for number, (source, target) in enumerate(lengths):
            ids = [2 + number // 250, 2 + number % 250]
            inputs = (ids * source)[: source - 1] + [1]
            examples.append({"inputs": inputs, "targets": [3] * (target - 1) + [1]})
        for shard, path in enumerate(problem.filepaths(split, tmp_path, shards)):
            write_examples(path, examples[shard::shards])
        return str(tmp_path)

    return write
