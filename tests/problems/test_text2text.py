import itertools

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import generate, pipeline
from t2t_repro.data.job import Job
from t2t_repro.problem import Split

FILES = ("inputs.train.txt", "targets.train.txt", "inputs.eval.txt", "targets.eval.txt")


@pytest.fixture
def raw_dir(tmp_path):
    for number, name in enumerate(FILES):
        (tmp_path / name).write_text(f"red {number}\nblue green {number}\n", encoding="utf-8")
    return tmp_path


def test_reads_the_four_files(raw_dir):
    problem = registry.get_problem("text2text_tmpdir")
    assert problem.vocab_filename == "vocab.text2text_tmpdir.32768.subwords"
    samples = list(problem.generate_samples("", str(raw_dir), Split.TRAIN))
    assert samples[1] == {"inputs": "blue green 0", "targets": "blue green 1"}
    assert problem.num_samples(str(raw_dir), Split.EVAL) == 2


def test_a_problem_made_of_it_may_read_what_it_likes(raw_dir):
    own = {
        "name": "mine",
        "generate_samples": lambda problem, *of: [{"inputs": "a", "targets": "b"}],
    }
    mine = type("Mine", (type(registry.get_problem("text2text_tmpdir")),), own)()
    for folder in (str(raw_dir), "nowhere"):
        assert mine.num_samples(folder, Split.TRAIN) is None
        assert mine.raw_text_files(folder, Split.TRAIN) == mine.missing_files(folder) == []


def test_a_test_set_is_text_alone(raw_dir):
    problem = registry.get_problem("text2text_tmpdir")
    (raw_dir / "inputs.test.txt").write_text("grey 7\n")
    assert problem.text_alone(str(raw_dir)) == []
    (raw_dir / "targets.test.txt").write_text("grey 8\n")
    assert problem.text_alone(str(raw_dir)) == [Split.TEST]
    (sample,) = problem.generate_samples("", str(raw_dir), Split.TEST)
    assert sample == {"inputs": "grey 7", "targets": "grey 8"}
    assert registry.get_problem("translate_ende_multi30k").text_alone(str(raw_dir)) == []


def test_several_pairs_make_an_example_and_few_shapes_of_batches(tmp_path, monkeypatch):
    problem = registry.get_problem("text2text_tmpdir_packed")
    assert problem.packed_length == 256 and not problem.says_vocab_size
    for split, name in ((Split.TRAIN, "train"), (Split.EVAL, "eval")):
        for side in ("inputs", "targets"):
            lines = [f"the {n % 7} {side} of {n} " + "and more " * (n % 30) for n in range(200)]
            (tmp_path / f"{side}.{name}.txt").write_text("\n".join(lines) + "\n")
        assert problem.num_samples(str(tmp_path), split) == 200
    generate.generate_data(Job(problem, tmp_path / "data", tmp_path))
    hparams = HParams(batch_size=1024)
    monkeypatch.setattr(pipeline.keras.backend, "backend", lambda: "jax")
    dataset = pipeline.make_dataset(problem, "train", hparams, tmp_path / "data", training=True)
    batches = list(itertools.islice(iter(dataset), 8))
    assert {batch["targets"].shape for batch in batches} == {(4, 256)}
    assert {"inputs_segmentation", "targets_position"} <= batches[0].keys()
    assert np.mean([batch["inputs"] == 0 for batch in batches]) < 0.1
    share, shape = dataset.shares[0]
    assert shape.keys() == batches[0].keys() and set(shape.values()) == {(4, 256)}
    assert share > 0.8 and len(dataset.shares) <= 2  # the last example of a file is a short one


def test_files_of_other_forms_become_the_problems_own(tmp_path, capsys):
    lines = "".join(f"one {letter}\tein {letter}\n" for letter in "abcdefghijk")
    (tmp_path / "a.tsv").write_text(lines)
    for name in ("text2text_tmpdir", "text2text_tmpdir_tokens"):
        problem, raw = registry.get_problem(name), str(tmp_path / name)
        problem.prepare_raw_files(raw, {"train_source": str(tmp_path / "a.tsv"), "dev_size": 3})
        problem.prepare_raw_files(raw, {})  # and stay without the flags
        assert problem.num_samples(raw, Split.TRAIN) == 8
        assert problem.num_samples(raw, Split.EVAL) == 3
    assert "a.tsv, 8 pairs" in capsys.readouterr().err


def test_tokens_come_from_the_users_list(raw_dir, tmp_path_factory):
    data = str(tmp_path_factory.mktemp("data"))
    (raw_dir / "vocab.txt").write_text("red\n<UNK>\ngreen\n0\n1\n", encoding="utf-8")
    problem = registry.get_problem("text2text_tmpdir_tokens")
    problem.prepare_vocabulary(data, str(raw_dir))
    (raw_dir / "vocab.txt").unlink()
    problem.prepare_vocabulary(data, str(raw_dir))  # it is there now
    samples = list(problem.generate_encoded_samples(data, str(raw_dir), Split.TRAIN))
    # <pad> <EOS> <UNK> red green 0 1
    assert samples == [
        {"inputs": [3, 5, 1], "targets": [3, 6, 1]},
        {"inputs": [2, 4, 5, 1], "targets": [2, 4, 6, 1]},
    ]
