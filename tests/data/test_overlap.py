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


def test_pairs_are_counted(make):
    old = make("old", ["a bee", "the sea", "a bee", "an egg"], ["a cab", "a bee"])
    new = make(
        "new", ["a cab", "one more", "a cab"], ["the sea", "the sea", "a cab", "two", "a bee"]
    )
    assert overlap.counts(old, new, old) == [3, 1] and overlap.counts(new, old) == [1]


def test_a_pair_is_both_sides(make, tmp_path):
    old = make("old", ["a bee", "the sea"], ["an egg"])
    raw = tmp_path / "new" / "raw"
    make("new", ["two"], ["a bee", "the sea"])
    (raw / "targets.eval.txt").write_text("the sea\nthe sea\n")
    generate_data(Job(PROBLEM, tmp_path / "again", raw, num_shards=1))
    assert overlap.counts(old, overlap.texts(PROBLEM, tmp_path / "again")) == [1]


def test_blanks_at_the_ends_are_none_and_what_is_empty_is_nobodys(make):
    old = make("old", ["a bee ", "", " "], ["an egg"])
    new = make("new", ["two"], ["", "  a bee", ""])
    assert overlap.counts(old, new) == [1]


def test_pairs_that_were_left_out_are_not_learned(make, tmp_path):
    train, dev = ["one more", "the sea of the bees", "two"], ["the sea of the bees"]
    assert overlap.counts(make("all", train, dev), make("dev", ["three"], dev)) == [1]
    dropped = make("dropped", train, dev, check=DROP)
    assert dropped["train"].left_out == {2} and overlap.counts(dropped, dropped) == [0]
    (tmp_path / "dropped" / "data" / "datagen.text2text_tmpdir.bad_pairs.tsv").write_text("?\n")
    assert overlap.texts(PROBLEM, tmp_path / "dropped" / "data") == {}


def test_what_is_not_known_is_not_counted(make, tmp_path):
    old = make("old", ["a bee"], ["a bee"])
    data, raw = tmp_path / "old" / "data", tmp_path / "old" / "raw"
    assert overlap.counts(old, {}, old) == [None, 1] and overlap.counts({}, old) == [None]
    (raw / "inputs.train.txt").write_text("another\n")
    assert set(overlap.texts(PROBLEM, data)) == {"dev"}
    (raw / "inputs.eval.txt").unlink()
    assert overlap.texts(PROBLEM, data) == {}
    summary = data / "datagen.text2text_tmpdir.json"
    distilled = registry.get_problem("text2text_tmpdir_distill")  # which wants its texts
    (data / "datagen.text2text_tmpdir_distill.json").write_bytes(summary.read_bytes())
    assert overlap.texts(distilled, data) == {}
    summary.write_text("{")
    assert overlap.texts(PROBLEM, data) == overlap.texts(PROBLEM, tmp_path / "none") == {}
