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
    "options, left",
    [({"dev_size": 2}, 8), ({"dev_size": 2, "test_size": 3}, 5), ({"dev_source": "c"}, 10)],
)
def test_files_of_the_user_less_what_is_drawn_of_them(problem, tmp_path, options, left):
    write(tmp_path, "a", ["aé"] * 10)  # 3 bytes
    write(tmp_path, "b", ["words"] * 10)
    for name in ("c", "d"):
        write(tmp_path, name, ["of dev"])
    given = {"train_source": "a", "train_target": "b"} | options
    if "dev_source" in given:
        given["dev_target"] = "d"
    paths = {key: str(tmp_path / value) for key, value in given.items() if isinstance(value, str)}
    found = text_size.of_training(problem, str(tmp_path), str(tmp_path / "raw"), given | paths)
    assert found == TextSize(left, 8 * left)


@pytest.mark.parametrize(
    "options, pairs, size",
    [
        ({"train_weights": "0.5,2"}, 10, 4 * 8 + 6 * 10),  # of 8 + 6, less the two of dev
        ({"train_weights": "1,2"}, 14, 8 * 8 + 6 * 10),
    ],
)
def test_what_is_repeated_counts_once_and_what_is_left_out_does_not(
    problem, tmp_path, options, pairs, size
):
    write(tmp_path, "a", ["aé"] * 8)
    write(tmp_path, "b", ["words"] * 8)
    write(tmp_path, "c", ["abcde"] * 6)
    write(tmp_path, "d", ["words"] * 6)
    files = {"train_source": "a,c", "train_target": "b,d"}
    given = {key: ",".join(f"{tmp_path}/{n}" for n in v.split(",")) for key, v in files.items()}
    given |= {"dev_size": 2} | options
    found = text_size.of_training(problem, str(tmp_path), str(tmp_path / "raw"), given)
    assert found.pairs == pytest.approx(pairs * 12 / 14, abs=1)
    assert found.size == pytest.approx(size * 12 / 14, abs=3)


@pytest.mark.parametrize("weights, times", [("10", 10), ("10,0.5", 8.4), ("1,1", 1), ("0.5,1", 1)])
def test_it_is_what_is_there_once_the_files_are_made_as_well(problem, tmp_path, weights, times):
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
    before = text_size.of_training(problem, data, raw, options)
    summary = generate_data(Job(problem, data, raw, options=options))
    assert summary["splits"]["train"].get("repeated", 1) == pytest.approx(times, rel=0.1)
    for folders in ((str(tmp_path / "no"), raw), (data, None)):  # of the text, of the records
        made = text_size.of_training(problem, *folders, {})
        assert made.pairs == pytest.approx(before.pairs, rel=0.1)
        assert made.size == pytest.approx(before.size, rel=0.1)


def test_the_problems_own_files_and_what_was_made_of_them(problem, tmp_path):
    for side, line in (("inputs", "abc"), ("targets", "ä and more")):
        write(tmp_path, f"{side}.train.txt", [f"{line}{n} " for n in range(7)])
        write(tmp_path, f"{side}.eval.txt", [line])
    packed = tmp_path / "inputs.train.txt"
    (tmp_path / f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    data = tmp_path / "data"
    asked = (registry.get_problem("text2text_tmpdir_rev"), str(data), str(tmp_path), {})
    before = text_size.of_training(*asked)
    assert before == TextSize(7, 7 * (4 + 12))
    generate_data(Job(problem, str(data), str(tmp_path)))
    (tmp_path / "targets.train.txt").unlink()
    assert text_size.of_training(*asked) == before
    assert text_size.of_training(problem, str(data), None, {}) == before


def test_of_three_files_of_distillation_two_sides_are_counted(tmp_path):
    problem = registry.get_problem("text2text_tmpdir_distill")
    for name in problem.FILES:
        path = pathlib.Path(problem.distilled_path(str(tmp_path), "train") + name)
        path.parent.mkdir(exist_ok=True)
        write(path.parent, path.name, ["four"] * 5)
    assert text_size.of_training(problem, str(tmp_path), str(tmp_path), {}) == TextSize(5, 40)


def test_where_the_length_is_not_known_it_is_that_of_captions(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: 11)
    monkeypatch.setattr(type(problem), "raw_text_files", lambda self, folder, split: [])
    assert text_size.of_training(problem, str(tmp_path), "raw", {}) == TextSize(11, 11 * 135)
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: None)
    assert text_size.of_training(problem, str(tmp_path), "raw", {}) is None
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: 0)
    assert text_size.of_training(problem, str(tmp_path), "raw", {}) == TextSize(0, 0)
    assert TextSize.of({"splits": {"train": {"examples": 11}}}) == TextSize(11, 11 * 135)
