"""t2t-datagen on Apache Beam's direct runner: the bytes of the run without Beam."""

import json

import pytest

from t2t_repro import registry
from t2t_repro.data import generate
from t2t_repro.data.beam import Beam
from t2t_repro.data.job import DROP, Job


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(generate, "SAMPLES", 7)
    monkeypatch.setattr(generate, "TEXTS", 20)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def both(tmp_path, name, **options):
    """Generates with and without Beam, and compares."""
    raw = tmp_path / "raw"
    for folder, machine in (("plain", generate.Local()), ("beam", Beam("DirectRunner"))):
        problem = registry.get_problem(name)
        generate.generate_data(Job(problem, tmp_path / folder, raw, **options), machine)
    found = contents(tmp_path / "beam")
    assert found == contents(tmp_path / "plain")
    return found


def test_text_gives_the_same_bytes(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for side in ("inputs", "targets"):
        lines = [f"{side} {number} of {number * 7 % 31} words\n" for number in range(41)]
        (raw / f"{side}.train.txt").write_text("".join(lines))
        (raw / f"{side}.eval.txt").write_text("".join(lines[:3]))
    found = both(tmp_path, "text2text_tmpdir", num_shards=5, seed=3, check=DROP)
    left_out = found["datagen.text2text_tmpdir.bad_pairs.tsv"].decode().splitlines()[1:]
    assert [row.split("\t")[:3] for row in left_out] == [
        ["train", line, "leakage"] for line in ("1", "2", "3")
    ]
    summary = json.loads(found["datagen.text2text_tmpdir.json"])
    assert summary["splits"]["train"]["examples"] == 38
    assert sum("-train-" in name for name in found) == 5
    assert sum(name.startswith("vocab.") for name in found) == 2  # and what is known of it


def test_drawn_samples_give_the_same_bytes_and_every_file_is_written(tmp_path):
    found = both(tmp_path, "algorithmic_reverse_decimal40", max_cases=4)
    assert sum(not content for content in found.values()) == 6  # of 10 files
