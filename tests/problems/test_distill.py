"""Sources with what a teacher makes of them: T2T's three files, and what is read as the targets."""

import json

import pytest

from t2t_repro import registry
from t2t_repro.data import pipeline, tfrecord
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.text.subword import SubwordTextEncoder

NAME = "text2text_tmpdir_distill"
LINES = {
    "inputs": ["ab cd", "cd cd ab", "ab"],
    "gold": ["cd", "ab ab", "cd cd cd cd"],
    "prediction": ["ab", "cd ab cd", "cd cd"],
}


@pytest.fixture
def raw_dir(tmp_path):
    for split, count in (("train", 3), ("dev", 2)):
        (tmp_path / "raw" / split).mkdir(parents=True)
        for name, lines in LINES.items():
            (tmp_path / "raw" / split / name).write_text("\n".join(lines[:count]) + "\n")
    return tmp_path / "raw"


COUNTS = {"ab": 9, "cd": 9, "a": 3, "b": 3, "c": 3, "d": 3}
ENCODER = SubwordTextEncoder.build_to_target_size(30, COUNTS, 1, 9)


@pytest.fixture
def vocabulary(tmp_path):
    ENCODER.store_to_file(path := tmp_path / "vocab")
    return path


def made(raw_dir, vocabulary, data):
    vocabularies = dict.fromkeys(("inputs", "targets"), str(vocabulary))
    problem = registry.get_problem(NAME)
    return generate_data(Job(problem, str(data), str(raw_dir), vocabularies=vocabularies))


def test_the_translations_are_the_targets_of_three_files(raw_dir, vocabulary, tmp_path):
    summary = made(raw_dir, vocabulary, tmp_path / "data")
    assert summary["splits"]["train"]["examples"] == 3
    (path,) = (tmp_path / "data").glob(f"{NAME}-dev-*")
    stored = [tfrecord.lists(record) for record in tfrecord.read(path)]
    for number, record in enumerate(stored):
        text = {name: ENCODER.decode(ids[:-1]) for name, ids in record.items()}
        names = dict(zip(("inputs", "targets", "dist_targets"), LINES, strict=True))
        assert text == {name: LINES[file][number] for name, file in names.items()}
        assert all(ids[-1] == 1 for ids in record.values())
    problem = registry.get_problem(NAME)
    read = list(pipeline.read_split(problem, Split.EVAL, tmp_path / "data"))
    assert read == [{"inputs": r["inputs"], "targets": r["dist_targets"]} for r in stored]
    backwards = registry.get_problem(f"{NAME}_rev")
    turned = list(pipeline.read_split(backwards, Split.EVAL, tmp_path / "data"))
    assert turned == [{"inputs": r["targets"], "targets": r["inputs"]} for r in read]


def test_batches_are_of_the_translations(raw_dir, vocabulary, tmp_path):
    made(raw_dir, vocabulary, tmp_path / "data")
    problem, where = registry.get_problem(NAME), tmp_path / "data"
    for more in ("", ",subword_dropout=0.5"):
        hparams = registry.get_hparams("transformer_tiny", f"batch_size=64,max_length=50{more}")
        batches = pipeline.make_dataset(problem, "train", hparams, where, training=True, seed=3)
        batch = next(iter(batches.as_numpy_iterator()))
        pairs = {
            tuple(ENCODER.decode([i for i in batch[side][row].tolist() if i > 1]) for side in batch)
            for row in range(len(batch["inputs"]))
        }
        assert pairs <= set(zip(LINES["inputs"], LINES["prediction"], strict=True)) and pairs
    found = pipeline.describe(problem, "train", hparams, where, training=True)
    lengths = [len(ENCODER.encode(line)) + 1 for line in LINES["prediction"]]
    assert found.targets_tokens == sum(lengths)


def test_other_translations_are_not_kept_unseen(raw_dir, vocabulary, tmp_path):
    made(raw_dir, vocabulary, tmp_path / "data")
    summary = json.loads((tmp_path / "data" / f"datagen.{NAME}.json").read_text())
    assert set(summary["splits"]["train"]["raw_text"]) == set(LINES)
    (raw_dir / "train" / "prediction").write_text("ab\nab\nab\n")
    with pytest.raises(UserError):
        made(raw_dir, vocabulary, tmp_path / "data")
