"""Which pairs of dev a training has learned."""

import pytest

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import DROP, Job
from t2t_repro.data.pipeline import overlap

PROBLEM = registry.get_problem("text2text_tmpdir")


@pytest.fixture
def make(tmp_path):
    """Returns a maker of data of two texts, source and target alike; it returns the data."""

    def make(name, train, dev, targets=None, **options):
        raw, data = tmp_path / name / "raw", str(tmp_path / name / "data")
        raw.mkdir(parents=True)
        for split, lines in (("train", train), ("eval", dev)):
            for side in ("inputs", "targets"):
                of = targets if targets and (split, side) == ("eval", "targets") else lines
                (raw / f"{side}.{split}.txt").write_text("".join(f"{line}\n" for line in of))
        generate_data(Job(PROBLEM, data, raw, num_shards=1, **options))
        return PROBLEM, data

    return make


def test_pairs_are_counted_whatever_the_vocabularies(make, tmp_path):
    old = make("old", ["a bee ", "the sea", "a bee", "an egg", "", " "], ["a cab", "a bee"])
    dev = ["the sea", "the sea", "", "a cab", "two", " a bee"]
    new = make("new", ["a cab", "one more", "a cab"], dev)
    other = make("other", ["a cab"], dev, targets=["the sea"] * 6)  # a pair is both sides
    pairs = [(old, new), (old, old), (new, old), (old, other)]
    assert [overlap(*each) for each in pairs] == [3, 1, 1, 2]
    nothing = PROBLEM, str(tmp_path)
    assert overlap(nothing, old) == overlap(old, nothing) == 0


def test_pairs_that_were_left_out_are_not_learned(make):
    dev = ["the sea of the bees"]
    dropped = make("dropped", ["one more", *dev, "two"], dev, check=DROP)
    assert overlap(dropped, dropped) == 0
