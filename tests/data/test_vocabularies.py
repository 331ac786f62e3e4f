"""The vocabulary of a data directory: its size, and whether it stays."""

import json
import random
import tempfile

import pytest

from t2t_repro import problem as problems
from t2t_repro.data import generate
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Split

NO_RAW_TEXT = f"{tempfile.gettempdir()}/t2t_no_raw_text"


class Toy(problems.Text2TextProblem):
    name = "toy"
    dataset_splits = [{"split": Split.TRAIN, "shards": 1}, {"split": Split.EVAL, "shards": 1}]
    seeds = {Split.TRAIN: 1, Split.EVAL: 2}
    letters = {Split.TRAIN: "abcdefgh", Split.EVAL: "abcdefgh"}

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(self.seeds[dataset_split])
        letters = self.letters[dataset_split]
        for _ in range(400):
            words = ["".join(draw.choices(letters, k=draw.randint(2, 4))) for _ in range(9)]
            yield {"inputs": " ".join(words), "targets": " ".join(words).upper()}


class Sharing(Toy):
    name = "sharing"
    use_vocab_from_other_problem = Toy()


class Characters(Toy):
    vocab_type = problems.VocabType.CHARACTER


def run(folder, problem=None, **what):
    """Generates; returns the summary and what was reported."""
    said = []
    job = Job(problem or Toy(), folder, NO_RAW_TEXT, **what)
    return generate.generate_data(job, report=said.append), said


def vocabulary(folder):
    (path,) = folder.glob("vocab.toy.*.subwords")
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_problem_that_says_no_size_gets_what_its_text_supports(tmp_path):
    summary, said = run(tmp_path)
    known = summary["vocabulary"]
    assert known["file"] == vocabulary(tmp_path).name and known["asked"] is None
    assert known["made"] == summary["vocab_size"]["inputs"] < 1500
    assert len(said) == 1 and f"{known['file']}: {known['made']:,}" in said[0]
    assert json.loads((tmp_path / "datagen.toy.json").read_text())["vocabulary"] == known
    assert summary["splits"]["dev"]["bytes"]["inputs"] > 400 * 9 * 3


def test_the_size_is_a_flag_of_every_problem_of_subwords(tmp_path):
    for problem in (Toy(), Toy(was_reversed=True), Sharing()):
        folder = tmp_path / f"{problem.name}{problem.was_reversed}"
        summary, _ = run(folder, problem, vocab_size=300)
        assert abs(summary["vocab_size"]["inputs"] - 300) < 20
        assert summary["vocabulary"]["asked"] == 300
        assert vocabulary(folder)
    assert Sharing.use_vocab_from_other_problem._asked_vocab_size == 0
    for problem in (Characters(), problems.Problem()):
        with pytest.raises(UserError, match="--vocab_size"):
            Job(problem, tmp_path, NO_RAW_TEXT, vocab_size=300)


def test_a_vocabulary_of_another_size_is_refused_or_made_anew(tmp_path):
    run(tmp_path, vocab_size=300)
    before = contents(tmp_path)
    with pytest.raises(UserError, match="--vocab_size"):
        run(tmp_path, vocab_size=600)
    run(tmp_path, vocab_size=300)
    assert contents(tmp_path) == before
    run(tmp_path, vocab_size=600, overwrite=True)
    straight = tmp_path.with_name("straight")
    run(straight, vocab_size=600)
    assert contents(tmp_path) == contents(straight) != before


@pytest.mark.parametrize("reason", ["foreign", "shared"])
def test_overwrite_keeps_a_vocabulary_that_others_need(tmp_path, reason):
    run(tmp_path, vocab_size=300)
    if reason == "foreign":  # such as the one of a model that was downloaded
        path = vocabulary(tmp_path)
        path.write_text(path.read_text() + "'downloaded_'\n")
    else:
        run(tmp_path, Sharing())
    before = contents(tmp_path)
    with pytest.raises(UserError, match="--vocab_size"):
        run(tmp_path, vocab_size=600, overwrite=True)
    assert contents(tmp_path) == before
    run(tmp_path, overwrite=True)
    assert vocabulary(tmp_path).read_bytes() == before[vocabulary(tmp_path).name]
