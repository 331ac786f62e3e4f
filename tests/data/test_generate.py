"""t2t-datagen's files: which are made, kept and refused, and their bytes whatever happens."""

import contextlib
import gzip
import json
import operator
import os
import shutil
import tempfile

import pytest

from t2t_repro import problem as problems
from t2t_repro import process, registry
from t2t_repro.data import generate, packing
from t2t_repro.data.beam import Beam
from t2t_repro.data.job import DROP, Job
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
    dataset_splits = [{"split": Split.TRAIN, "shards": 2}, {"split": Split.EVAL, "shards": 1}]

    def num_samples(self, tmp_dir, dataset_split):
        return len(self.text[dataset_split])

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for line in self.text[dataset_split]:
            yield {"inputs": line, "targets": line.upper()}


class PackedToy(Toy):
    packed_length, packed_spacing = 31, 2


class Together(Toy):
    is_generate_per_split = False


FILES = ["toy-dev-00000-of-00001", "toy-train-00000-of-00002", "toy-train-00001-of-00002"]
SUMMARY, VOCABULARY = "datagen.toy.json", "vocab.toy.200.subwords"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
    assert {*os.listdir(tmp_path)} == {SUMMARY, *FILES, VOCABULARY, f"{VOCABULARY}.json"}
    assert len(said) == 1 and list(read) == FILES
    assert read[FILES[0]] == TEXT[Split.EVAL]
    assert sorted(read[FILES[1]]) == sorted(TEXT[Split.TRAIN][0::2])
    assert read[FILES[1]] != TEXT[Split.TRAIN][0::2]  # shuffled
    summary = json.loads((tmp_path / SUMMARY).read_text())
    train, dev = (summary["splits"][split] for split in ("train", "dev"))
    assert (train["examples"], train["files"]) == (30, 2)
    assert dev["empty"] == {"inputs": 1, "targets": 1} and dev["bytes"]["inputs"] == 10
    sizes = [len(e["inputs"]) for e in read_examples(tmp_path / FILES[0])]
    assert dev["tokens"]["inputs"] == sum(sizes) and dev["longest"]["inputs"] == max(sizes)
    assert summary["vocab_size"]["inputs"] == Toy().inputs_vocab_size(str(tmp_path))
    others = [run(tmp_path / name, seed=seed)[1] for name, seed in (("b", 1), ("c", 1), ("d", 2))]
    assert others[0] == others[1] != others[2]


def test_what_is_there_is_kept_unless_overwritten(tmp_path):
    _, before = run(tmp_path)
    changed = Toy()
    changed.text = {**TEXT, Split.EVAL: ["train 7"]}
    said, after = run(tmp_path, changed)
    assert after == before and "--overwrite" in said[0]
    assert run(tmp_path, changed, overwrite=True)[1][FILES[0]] == ["train 7"]
    changed.text = {**TEXT, Split.EVAL: []}
    with pytest.raises(UserError):  # a split without a sample
        run(tmp_path, changed, overwrite=True)
    assert not list(tmp_path.glob("*incomplete"))


def test_a_split_that_is_not_whole_is_made_again_and_a_lost_vocabulary_not_unasked(tmp_path):
    _, before = run(tmp_path)
    (tmp_path / FILES[1]).unlink()
    (tmp_path / (FILES[1] + ".unshuffled.incomplete")).write_bytes(b"half")
    dev = (tmp_path / FILES[0]).stat().st_mtime_ns
    assert run(tmp_path)[1] == before and not list(tmp_path.glob("*incomplete"))
    assert (tmp_path / FILES[0]).stat().st_mtime_ns == dev
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert sorted(summary["splits"]) == ["dev", "train"]
    for name in (VOCABULARY, FILES[0]):
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=VOCABULARY):
        run(tmp_path)
    run(tmp_path, overwrite=True)
    assert (tmp_path / VOCABULARY).exists()


def test_number_of_files_and_cases(tmp_path):
    _, read = run(tmp_path, num_shards=5, max_cases=12)
    sizes = [len(examples) for name, examples in read.items() if "train" in name]
    assert (len(sizes), sum(sizes)) == (5, 12)
    with pytest.raises(UserError, match="00000"):
        run(tmp_path)
    assert list(run(tmp_path, overwrite=True)[1]) == FILES


def test_one_source_for_all_splits(tmp_path):
    read = run(tmp_path, Together())[1].values()
    assert list(map(len, read)) == [10, 10, 10]
    assert sorted(sum(read, [])) == sorted(TEXT[Split.TRAIN])


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


# --- of text in files -----------------------------------------------------------------------------

NAME, SHARDS = "text2text_tmpdir", 5


@pytest.fixture
def small(monkeypatch):
    """Several blocks, and files, of a small text."""
    monkeypatch.setattr(generate, "SAMPLES", 7)
    monkeypatch.setattr(generate, "TEXTS", 20)
    monkeypatch.setattr(type(registry.get_problem(NAME)), "pairs_a_file", 17)


@pytest.fixture
def raw(small, tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for side in ("inputs", "targets"):
        lines = [f"{side} {number} of {number * 7 % 31} words\n" for number in range(83)]
        (folder / f"{side}.train.txt").write_text("".join(lines))
        (folder / f"{side}.eval.txt").write_text("".join(lines[:9]))
    return folder


def make(raw, data, machine=None, **options):
    said = []
    job = Job(registry.get_problem(NAME), raw.parent / data, raw, **options)
    generate.generate_data(job, machine, report=said.append)
    return said


def test_as_many_training_files_as_the_text_fills(raw):
    for options, count in (
        ({}, SHARDS),
        ({"max_cases": 4, "overwrite": True}, 1),
        ({"num_shards": 100, "overwrite": True}, 100),
        ({}, 100),
        ({"overwrite": True}, SHARDS),
    ):
        make(raw, "data", **options)
        names = sorted(path.name for path in (raw.parent / "data").glob(f"{NAME}-train-*"))
        assert len(names) == count and names[-1].endswith(f"-{count - 1:05d}-of-{count:05d}")


def test_files_of_tensor2tensor_need_no_raw_text(raw):
    make(raw, "data", num_shards=3)
    (raw.parent / "data" / f"datagen.{NAME}.json").unlink()
    (raw / "inputs.train.txt").write_text("another\n" * 83)
    assert "3" in make(raw, "data")[0]
    shutil.rmtree(raw)
    assert "3" in make(raw, "data")[0]


def test_text_that_changed_since_is_refused_and_packed_text_is_the_same(raw):
    make(raw, "data")
    before = contents(raw.parent / "data")
    summary = json.loads(before[f"datagen.{NAME}.json"])
    assert list(summary["splits"]["train"]["raw_text"]) == ["inputs.train.txt", "targets.train.txt"]
    for name in ("targets.train.txt", "inputs.eval.txt"):
        text = (raw / name).read_text()
        (raw / name).write_text(text.replace(" of", " if"))  # as many bytes
        with pytest.raises(UserError, match=name):
            make(raw, "data")
        assert contents(raw.parent / "data") == before
        (raw / name).write_text(text)
    path = raw / "inputs.train.txt"
    (raw / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert "5" in make(raw, "data")[0]
    (raw / "inputs.eval.txt").write_text("inputs b\n" * 9)
    make(raw, "data", overwrite=True)
    assert "5" in make(raw, "data")[0]


@pytest.mark.parametrize("machine", [generate.Local(3), Beam("DirectRunner")])
def test_the_bytes_do_not_depend_on_the_machine(raw, tmp_path, machine):
    make(raw, "plain", seed=3, check=DROP)
    make(raw, "other", machine, seed=3, check=DROP)
    found = contents(tmp_path / "other")
    assert found == contents(tmp_path / "plain")
    assert json.loads(found[f"datagen.{NAME}.json"])["splits"]["train"]["examples"] == 74
    assert sum("-train-" in name for name in found) == SHARDS


def test_drawn_samples_are_the_same_on_beam_and_every_file_is_written(small, tmp_path):
    problem = registry.get_problem("algorithmic_reverse_decimal40")
    for name, machine in (("plain", None), ("beam", Beam("DirectRunner"))):
        job = Job(problem, tmp_path / name, NO_RAW_TEXT, max_cases=4)
        generate.generate_data(job, machine)
    found = contents(tmp_path / "beam")
    assert found == contents(tmp_path / "plain")
    assert sum(not content for content in found.values()) == 6  # of 10 files
