import contextlib
import json
import operator
import os
import tempfile

import pytest

from t2t_repro import problem as problems
from t2t_repro import process
from t2t_repro.data import generate, packing
from t2t_repro.data.job import Job
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.problem import Split, VocabType
from tests.data.record_files import read_examples

NO_RAW_TEXT = f"{tempfile.gettempdir()}/t2t_no_raw_text"
TEXT = {
    Split.TRAIN: [f"train {number}" for number in range(30)],
    Split.EVAL: ["dev 0", "", "dev 2"],
}


class Toy(problems.Text2TextProblem):
    name = "toy"
    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 200
    text = TEXT

    @property
    def dataset_splits(self):
        return [{"split": Split.TRAIN, "shards": 2}, {"split": Split.EVAL, "shards": 1}]

    def num_samples(self, tmp_dir, dataset_split):
        return len(self.text[dataset_split])

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for line in self.text[dataset_split]:
            yield {"inputs": line, "targets": line.upper()}


FILES = ["toy-dev-00000-of-00001", "toy-train-00000-of-00002", "toy-train-00001-of-00002"]
SUMMARY, VOCABULARY = "datagen.toy.json", "vocab.toy.200.subwords"
KNOWN = VOCABULARY + ".json"


def run(tmp_path, problem=None, **kwargs):
    """Generates; returns what was reported, and the examples of every file as text."""
    said = []
    problem = problem or Toy()
    generate.generate_data(Job(problem, tmp_path, NO_RAW_TEXT, **kwargs), report=said.append)
    encoder = problem.feature_encoders(str(tmp_path))["inputs"]
    read = {}
    for path in sorted(tmp_path.glob("toy-*")):
        examples = read_examples(path)
        read[path.name] = [encoder.decode(example["inputs"][:-1]) for example in examples]
    return said, read


def test_writes_files_vocabulary_and_summary(tmp_path):
    said, read = run(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([SUMMARY, *FILES, VOCABULARY, KNOWN])
    assert len(said) == 1 and list(read) == FILES
    assert read[FILES[0]] == TEXT[Split.EVAL]
    assert sorted(read[FILES[1]]) == sorted(TEXT[Split.TRAIN][0::2])
    assert read[FILES[1]] != TEXT[Split.TRAIN][0::2]  # shuffled
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert summary["splits"]["train"]["examples"] == 30
    assert summary["splits"]["train"]["files"] == 2
    assert summary["splits"]["dev"]["empty"] == {"inputs": 1, "targets": 1}
    sizes = [len(e["inputs"]) for e in read_examples(tmp_path / FILES[0])]
    assert summary["splits"]["dev"]["tokens"]["inputs"] == sum(sizes)
    assert summary["splits"]["dev"]["longest"]["inputs"] == max(sizes)
    assert summary["vocab_size"]["inputs"] == Toy().inputs_vocab_size(str(tmp_path))


def test_seed_decides_the_order(tmp_path):
    found = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        _, found[name] = run(tmp_path / name, seed=seed)
    assert found["a"] == found["b"] != found["c"]


def test_what_is_there_is_kept_unless_overwritten(tmp_path):
    _, before = run(tmp_path)
    changed = Toy()
    changed.text = {**TEXT, Split.EVAL: ["train 7"]}
    said, after = run(tmp_path, changed)
    assert after == before
    assert "--overwrite" in said[0]
    assert run(tmp_path, changed, overwrite=True)[1][FILES[0]] == ["train 7"]


def test_a_split_that_is_not_whole_is_made_again(tmp_path):
    _, before = run(tmp_path)
    (tmp_path / FILES[1]).unlink()
    (tmp_path / (FILES[1] + ".unshuffled.incomplete")).write_bytes(b"half")
    dev = (tmp_path / FILES[0]).stat().st_mtime_ns
    assert run(tmp_path)[1] == before and not list(tmp_path.glob("*incomplete"))
    assert (tmp_path / FILES[0]).stat().st_mtime_ns == dev
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert sorted(summary["splits"]) == ["dev", "train"]


def test_a_lost_vocabulary_is_not_replaced_unasked(tmp_path):
    run(tmp_path)
    (tmp_path / VOCABULARY).unlink()
    (tmp_path / FILES[0]).unlink()
    with pytest.raises(UserError, match=VOCABULARY):
        run(tmp_path)
    run(tmp_path, overwrite=True)
    assert (tmp_path / VOCABULARY).exists()


def test_number_of_files_and_cases(tmp_path):
    _, read = run(tmp_path, num_shards=5, max_cases=12)
    assert sum("train" in name for name in read) == 5
    assert sum(len(examples) for name, examples in read.items() if "train" in name) == 12
    with pytest.raises(UserError, match="00000"):
        run(tmp_path)
    _, read = run(tmp_path, overwrite=True)
    assert list(read) == FILES


def test_one_source_for_all_splits(tmp_path):
    class Together(Toy):
        is_generate_per_split = False

    _, read = run(tmp_path, Together())
    assert [len(read[name]) for name in FILES] == [10, 10, 10]
    assert sorted(line for lines in read.values() for line in lines) == sorted(TEXT[Split.TRAIN])


def test_an_empty_split_is_an_error(tmp_path):
    empty = Toy()
    empty.text = {**TEXT, Split.EVAL: []}
    with pytest.raises(UserError):
        run(tmp_path, empty)
    assert not list(tmp_path.glob("*incomplete"))


class PackedToy(Toy):
    packed_length, packed_spacing = 31, 2


def test_each_file_is_packed_by_itself_after_it_was_shuffled(tmp_path):
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder, problem in ((plain, Toy()), (packed, PackedToy())):
        generate.generate_data(Job(problem, folder, NO_RAW_TEXT, seed=8))
    for name in FILES:
        samples = read_examples(plain / name)
        expected = list(packing.pack(samples, 31, 2))
        assert read_examples(packed / name) == expected
        assert len(expected) < len(samples)
    summary = json.loads((packed / SUMMARY).read_text())
    assert summary["splits"]["train"]["examples"] == 30  # sentences


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order_and_blocks_when_they_are_needed(processes):
    taken = []

    def numbers():
        for number in range(30):
            taken.append(number)
            yield number

    with contextlib.closing(generate.Local(processes)) as machine:
        results = machine.map(operator.neg, numbers())
        assert next(results) == 0
        assert len(taken) <= 6
        assert list(results) == [-number for number in range(1, 30)]
        assert list(machine.map(len, ["ab"])) == [2]
        assert list(machine.map(len, [])) == []


def test_a_signal_waits_until_a_process_is_told_what_to_do(half_started):
    with pytest.raises(Interrupted), process.handle_signals():
        with contextlib.closing(generate.Local(2)) as machine:
            list(machine.map(operator.neg, range(9)))
    with contextlib.suppress(ChildProcessError):  # the pool has waited for it
        os.waitpid(half_started[0], 0)
    assert len(half_started) == 1
