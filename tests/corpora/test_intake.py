import gzip
import json
import os
import pathlib

import pytest

from t2t_repro.corpora import intake
from t2t_repro.corpora.request import RawText
from t2t_repro.errors import UserError

NAMES = {
    "train": ("inputs.train.txt", "targets.train.txt"),
    "dev": ("inputs.eval.txt", "targets.eval.txt"),
    "test": ("inputs.test.txt", "targets.test.txt"),
}
SEED = 7


def run(seed=SEED, **flags):
    """Makes the files in raw; returns what was said."""
    said = []
    intake.prepare("raw", RawText(**flags), NAMES, seed, said.append)
    return said


def made():
    return {path.name: path.read_bytes() for path in pathlib.Path("raw").iterdir()}


def pairs(split):
    sides = (pathlib.Path("raw", name).read_text().splitlines() for name in NAMES[split])
    return list(zip(*sides, strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, count in (("big", 80), ("small", 20), ("dev", 3)):
        lines = [f"{name} word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count)]
        text = "".join(f"{line}\t{line.upper()}\n" for line in lines)
        (tmp_path / f"{name}.tsv").write_text(text)
    return tmp_path


def test_files_become_those_of_the_problem(folder):
    run(train_source="big.tsv,small.tsv", dev_source="dev.tsv")
    assert sorted(made()) == sorted([*NAMES["train"], *NAMES["dev"], "raw-text.json"])
    train = pairs("train")
    assert len(train) == 100 and train[80] == ("small wordaa", "SMALL WORDAA")
    assert pairs("dev")[2] == ("dev wordac", "DEV WORDAC")
    record = json.loads(made()["raw-text.json"])
    assert record["files"]["inputs.train.txt"]["lines"] == 100
    assert [share["share"] for share in record["shares"]] == [0.8, 0.2, 1.0]


def test_dev_and_test_are_drawn(folder):
    run(train_source="big.tsv,small.tsv", test_size=11)
    parts = [pairs(split) for split in NAMES]
    assert [len(part) for part in parts] == [84, 5, 11]
    assert len(set().union(*parts)) == 100
    before = made()
    run(train_source="big.tsv,small.tsv", dev_size=5, seed=8)
    assert "inputs.test.txt" not in made()
    assert made()["inputs.eval.txt"] != before["inputs.eval.txt"]


@pytest.mark.parametrize(
    "weights, written", [("1,2.5", {"big": (80, 80), "small": (42, 58)}),
                         ("0.5,3", {"big": (30, 50), "small": (60, 60)})]
)  # fmt: skip
def test_corpora_have_weights(folder, weights, written):
    files = {"train_source": "big.tsv,small.tsv", "dev_source": "dev.tsv"}
    run(**files, train_weights=weights)
    before = made()
    text = before["inputs.train.txt"].decode()
    shares = json.loads(before["raw-text.json"])["shares"][:2]
    for share, (name, (least, most)) in zip(shares, written.items(), strict=True):
        assert least <= share["written"] == text.count(name) <= most
        assert share["share"] == pytest.approx(text.count(name) / text.count("\n"))
    for path in (folder / "raw").iterdir():
        path.unlink()
    run(**files, train_weights=weights)
    assert made() == before


def test_nothing_is_done_twice_unless_flags_or_files_change(folder):
    flags = {"train_source": "big.tsv", "dev_size": 4}
    run(**flags)
    before = made()
    assert len(run(**flags)) == 1 and made() == before
    run(**flags, test_size=3)
    with open(folder / "big.tsv", "a") as file:
        file.write("one more\teins mehr\n")
    run(**flags, test_size=3)
    whole = made()
    assert sum(len(pairs(split)) for split in NAMES) == 81
    (folder / "raw" / "inputs.eval.txt").unlink()  # as after a kill between two names
    run(**flags, test_size=3)
    assert made() == whole
    run(**flags)
    assert set(made()) == {"raw-text.json", *NAMES["train"], *NAMES["dev"]}


@pytest.mark.parametrize("name", ["inputs.train.txt", "targets.eval.txt", "inputs.train.txt.gz"])
def test_a_file_of_the_users_is_never_replaced(folder, name):
    (folder / "raw").mkdir()
    content = gzip.compress(b"mine\n") if name.endswith(".gz") else b"mine\n"
    (folder / "raw" / name).write_bytes(content)
    with pytest.raises(UserError, match=name):
        run(train_source="big.tsv")
    assert made() == {name: content}


def test_what_stops_between_two_names_is_made_good(folder, monkeypatch):
    flags = {"train_source": "big.tsv", "test_size": 3}
    run(**flags)
    whole = made()
    replace = os.replace
    for last in range(7):  # the record, and six files
        for path in (folder / "raw").iterdir():
            path.unlink()
        run(train_source="small.tsv")
        names = []

        def stop(source, target, last=last, names=names):
            names.append(target)
            if len(names) > last:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            run(**flags)
        monkeypatch.setattr(os, "replace", replace)
        run(**flags)
        assert made() == whole
