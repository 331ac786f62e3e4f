"""Which pairs of dev a training has learned, by the texts."""

import pytest

from t2t_repro import registry
from t2t_repro.data import overlap
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import DROP, Job

PROBLEM = registry.get_problem("text2text_tmpdir")


@pytest.fixture
def make(tmp_path):
    """Returns a maker of data of two texts, source and target alike; it returns what is known."""

    def make(name, train, dev, **options):
        raw, data = tmp_path / name / "raw", tmp_path / name / "data"
        raw.mkdir(parents=True)
        for split, lines in (("train", train), ("eval", dev)):
            for side in ("inputs", "targets"):
                (raw / f"{side}.{split}.txt").write_text("".join(f"{line}\n" for line in lines))
        generate_data(Job(PROBLEM, data, raw, num_shards=1, **options))
        return overlap.texts(PROBLEM, data)

    return make


def test_pairs_are_counted(make, tmp_path):
    old = make("old", ["a bee ", "the sea", "a bee", "an egg", "", " "], ["a cab", "a bee"])
    dev = ["the sea", "the sea", "", "a cab", "two", " a bee"]
    new = make("new", ["a cab", "one more", "a cab"], dev)
    assert (overlap.count(old, new), overlap.count(old, old), overlap.count(new, old)) == (3, 1, 1)
    assert overlap.count({}, old) == overlap.count(old, {}) == 0
    raw = tmp_path / "new" / "raw"
    (raw / "targets.eval.txt").write_text("the sea\n" * 6)  # a pair is both sides
    generate_data(Job(PROBLEM, tmp_path / "again", raw, num_shards=1))
    assert overlap.count(old, overlap.texts(PROBLEM, tmp_path / "again")) == 2


def test_pairs_that_were_left_out_are_not_learned(make):
    train, dev = ["one more", "the sea of the bees", "two"], ["the sea of the bees"]
    assert overlap.count(make("all", train, dev), make("dev", ["three"], dev)) == 1
    dropped = make("dropped", train, dev, check=DROP)
    assert dropped["train"].left_out == {2} and overlap.count(dropped, dropped) == 0


def test_what_is_not_known_is_not_counted(make, tmp_path):
    make("old", ["a bee"], ["a bee"])
    data, raw = tmp_path / "old" / "data", tmp_path / "old" / "raw"
    (raw / "inputs.train.txt").write_text("another\n")
    assert set(overlap.texts(PROBLEM, data)) == {"dev"}
    (data / "datagen.text2text_tmpdir.json").write_text("{")
    assert overlap.texts(PROBLEM, data) == overlap.texts(PROBLEM, tmp_path / "none") == {}
