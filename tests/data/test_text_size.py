"""How much text there is to train on, before and after its files are made."""

import gzip
import pathlib

import pytest

from t2t_repro import registry
from t2t_repro.data import text_size
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.data.text_size import TextSize


@pytest.fixture
def problem():
    """Returns one whose text is four files."""
    return registry.get_problem("text2text_tmpdir")


def write(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    "weights, times, once",
    [("10", 10, 80), ("10,0.5", 8.4, 95), ("1,1", 1, 115), ("0.5,1", 1, 75)],
)
def test_what_is_repeated_counts_once(problem, tmp_path, weights, times, once):
    given = {"train_source": [], "train_target": [], "dev_source": ["ds"], "dev_target": ["dt"]}
    for name in ("ds", "dt"):
        write(tmp_path, name, [f"of {name}"])
    for number, _ in enumerate(weights.split(",")):
        write(tmp_path, f"s{number}", [f"line {n} of {number}" for n in range(10, 90 >> number)])
        write(tmp_path, f"t{number}", [f"the line {n}" for n in range(10, 90 >> number)])
        given["train_source"].append(f"s{number}")
        given["train_target"].append(f"t{number}")
    options = {key: ",".join(str(tmp_path / n) for n in names) for key, names in given.items()}
    options |= {"train_weights": weights}
    raw, data = str(tmp_path / "raw"), str(tmp_path / "data")
    summary = generate_data(Job(problem, data, raw, options=options))
    assert summary["splits"]["train"].get("repeated", 1) == pytest.approx(times, rel=0.1)
    text = text_size.of_training(problem, str(tmp_path / "no"), raw)
    made = text_size.of_training(problem, data, None)
    assert made == pytest.approx(text, rel=0.1) and made.pairs == pytest.approx(once, rel=0.1)


def test_the_problems_own_files_and_what_was_made_of_them(problem, tmp_path):
    for side, line in (("inputs", "abc"), ("targets", "ä and more")):
        write(tmp_path, f"{side}.train.txt", [f"{line}{n} " for n in range(7)])
        write(tmp_path, f"{side}.eval.txt", [line])
    packed = tmp_path / "inputs.train.txt"
    (tmp_path / f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    data = tmp_path / "data"
    asked = (registry.get_problem("text2text_tmpdir_rev"), str(data), str(tmp_path))
    before = text_size.of_training(*asked)
    assert before == TextSize(7, 7 * (4 + 12))
    generate_data(Job(problem, str(data), str(tmp_path)))
    (tmp_path / "targets.train.txt").unlink()
    assert text_size.of_training(*asked) == before
    assert text_size.of_training(problem, str(data), None) == before


def test_of_three_files_of_distillation_two_sides_are_counted(tmp_path):
    problem = registry.get_problem("text2text_tmpdir_distill")
    for name in problem.FILES:
        path = pathlib.Path(problem.distilled_path(str(tmp_path), "train") + name)
        path.parent.mkdir(exist_ok=True)
        write(path.parent, path.name, ["four"] * 5)
    assert text_size.of_training(problem, str(tmp_path), str(tmp_path)) == TextSize(5, 40)


def test_where_the_length_is_not_known_it_is_that_of_captions(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: 11)
    monkeypatch.setattr(type(problem), "raw_text_files", lambda self, folder, split: [])
    assert text_size.of_training(problem, str(tmp_path), "raw") == TextSize(11, 11 * 135)
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: None)
    assert text_size.of_training(problem, str(tmp_path), "raw") is None
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: 0)
    assert text_size.of_training(problem, str(tmp_path), "raw") == TextSize(0, 0)
    assert TextSize.of({"splits": {"train": {"examples": 11}}}) == TextSize(11, 11 * 135)
