"""The ids of a split in one file that is mapped: made once, and anew where records change."""

import os
import platform

import numpy as np
import pytest

from t2t_repro.data import pipeline
from t2t_repro.errors import UserError
from tests.data.record_files import write_examples

ONE = {"inputs": [5, 1], "targets": [9, 2, 1]}


@pytest.fixture
def split(problem, tmp_path):
    """Writes a file of examples each, and opens the split."""

    def write(*files):
        for path, examples in zip(
            problem.filepaths("train", tmp_path, len(files)), files, strict=True
        ):
            write_examples(path, examples)
        return pipeline.open_split(problem, "train", tmp_path)

    return write


def test_it_finds_every_example(problem, split, tmp_path):
    files = [
        [{"inputs": [n + 3] * (n % 5 + 1), "targets": [n + 2, 1]} for n in range(s, 31, 3)]
        for s in range(3)
    ]
    found = split(*files)
    expected = [example for file in files for example in file]
    some = found.take(np.array([30, 0]))
    for i, name in enumerate(("inputs", "targets")):
        assert found.lists()[name] == [example[name] for example in expected]
        assert some.lists()[name] == [expected[30][name], expected[0][name]]
        assert found.lengths[i].tolist() == [len(example[name]) for example in expected]
    assert found.counts == [11, 10, 10]
    backward = pipeline.open_split(type(problem)(was_reversed=True), "train", tmp_path)
    assert backward.lists()["inputs"] == found.lists()["targets"]
    assert len(list(tmp_path.glob("ids.*"))) == 1 and not list(tmp_path.glob("bytes*ids*"))


def test_it_is_made_once_and_anew_for_other_records(problem, split, tmp_path):
    first = split([ONE])
    os.utime(tmp_path / "ids.bytes-train", (1, 1))
    pipeline.open_split(problem, "train", tmp_path)
    assert (tmp_path / "ids.bytes-train").stat().st_mtime == 1
    found = split([{"inputs": [7, 1], "targets": [9, 2, 1]}])  # as many bytes, at another time
    assert found.lists()["inputs"] == [[7, 1]]
    assert first.lists()["inputs"] == [[5, 1]]  # it keeps what it has opened


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 40])
def test_a_file_of_something_else_is_made_anew(split, tmp_path, content):
    (tmp_path / "ids.bytes-train").write_bytes(content)
    assert split([ONE]).lists() == {name: [ids] for name, ids in ONE.items()}


def test_what_a_kill_left_is_removed(problem, split, tmp_path):
    name = f"ids.{problem.dataset_filename()}-train.{platform.node()}-"
    dead, alive = (tmp_path / f"{name}{pid}.incomplete" for pid in (2**22 + 1, os.getppid()))
    dead.touch(), alive.touch()
    split([ONE])
    assert alive.exists() and not dead.exists()


@pytest.mark.parametrize(
    "examples",
    [[], [ONE, {"targets": [1]}], [{**ONE, "inputs": []}], [{**ONE, "targets": [4, -1]}]],
)
def test_what_is_no_example_is_an_error(split, tmp_path, examples):
    with pytest.raises(UserError, match="bytes-train-00000"):
        split(examples)
    assert not list(tmp_path.glob("ids.*"))


def test_an_id_beyond_any_vocabulary_is_not_wrapped(split):
    with pytest.raises(UserError, match=str(2**32 + 5)):
        split([{**ONE, "inputs": [2**32 + 5, 1]}])
