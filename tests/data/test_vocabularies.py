"""The vocabulary of a data directory: its size, whether it stays, and whether it fits."""

import json
import random
import re
import tempfile

import pytest

from t2t_repro import problem as problems
from t2t_repro.corpora import raw_record
from t2t_repro.data import generate, vocabularies
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Split

NO_RAW_TEXT = f"{tempfile.gettempdir()}/t2t_no_raw_text"
TRAIN = "toy-train-00000-of-00001"


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
    assert summary["warnings"] == []
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
    run(tmp_path / "straight", vocab_size=600)
    straight = contents(tmp_path / "straight")
    (tmp_path / "straight").rename(tmp_path.with_name("elsewhere"))
    assert contents(tmp_path) == straight
    assert straight[TRAIN] != before[TRAIN]


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
    name = vocabulary(tmp_path).name
    assert contents(tmp_path)[name] == before[name]


def messages(folder, *args, **what):
    return [each["message"] for each in run(folder, *args, **what)[0]["warnings"]]


def test_dev_text_of_rare_words_is_a_warning_with_the_size_to_take(tmp_path):
    (warning,) = messages(tmp_path, vocab_size=2**15)
    size = int(re.search(r"--vocab_size=(\d+) --overwrite", warning)[1])
    assert size < 1500
    (shared,) = messages(tmp_path, Sharing())  # others need it
    assert f"--vocab_size={size} " in shared and "--data_dir" in shared
    (tmp_path / "datagen.sharing.json").unlink()
    vocabulary(tmp_path).with_suffix(".subwords.json").rename(tmp_path / "known")
    (by_hand,) = messages(tmp_path, overwrite=True)  # it was not made here, as far as is known
    assert "--" not in by_hand
    (tmp_path / "known").rename(vocabulary(tmp_path).with_suffix(".subwords.json"))
    assert messages(tmp_path, vocab_size=size, overwrite=True) == []


def test_dev_text_of_another_kind_is_another_warning(tmp_path, monkeypatch):
    other, sizes = Toy(), []
    other.letters = {**Toy.letters, Split.EVAL: "äöüßéèê"}
    (warning,) = messages(tmp_path, other, vocab_size=300)
    assert "dev" in warning and "--" not in warning
    # Text that weights repeat supports no more of one that was not made here.
    vocabulary(tmp_path).with_suffix(".subwords.json").unlink()
    monkeypatch.setattr(vocabularies.vocabulary_size, "supported", lambda n: sizes.append(n) or n)
    for times in (1.0, 4.0):
        monkeypatch.setattr(raw_record, "repeated", lambda paths, times=times: times)
        run(tmp_path, other, overwrite=True)
    assert sizes[0] == pytest.approx(4 * sizes[1], abs=4)
