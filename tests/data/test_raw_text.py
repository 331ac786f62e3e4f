import gzip
import json
import shutil

import pytest

from t2t_repro import registry
from t2t_repro.data import generate
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from tests.data.record_files import read_examples

NAME = "text2text_tmpdir_tokens"


@pytest.fixture
def raw(tmp_path, monkeypatch):
    monkeypatch.setattr(type(registry.get_problem(NAME)), "pairs_a_file", 10)
    folder = tmp_path / "raw"
    folder.mkdir()
    for side in ("inputs", "targets"):
        lines = [f"{side} {'abcdefghijklmnopqrstuvwxyz'[number % 26]}\n" for number in range(41)]
        (folder / f"{side}.train.txt").write_text("".join(lines))
        (folder / f"{side}.eval.txt").write_text("".join(lines[:3]))
    (folder / "vocab.txt").write_text("inputs\ntargets\na\nb\n")
    return folder


def run(raw, data="data", **options):
    said = []
    job = Job(registry.get_problem(NAME), raw.parent / data, raw, **options)
    generate.generate_data(job, report=said.append)
    return said


def names(raw, data="data"):
    return sorted(path.name for path in (raw.parent / data).glob(f"{NAME}-train-*"))


def test_as_many_training_files_as_the_text_fills(raw):
    run(raw)
    assert names(raw)[-1] == f"{NAME}-train-00004-of-00005" and len(names(raw)) == 5
    assert sum(len(read_examples(raw.parent / "data" / name)) for name in names(raw)) == 41
    run(raw, "few", max_cases=4)
    run(raw, "t2t", num_shards=100)
    assert (len(names(raw, "few")), len(names(raw, "t2t"))) == (1, 100)
    run(raw, "t2t")
    assert len(names(raw, "t2t")) == 100
    run(raw, "t2t", overwrite=True)
    assert len(names(raw, "t2t")) == 5


def test_files_of_tensor2tensor_need_no_raw_text(raw):
    run(raw, num_shards=3)
    (raw.parent / "data" / f"datagen.{NAME}.json").unlink()
    (raw / "inputs.train.txt").write_text("another\n" * 41)
    assert "3" in run(raw)[0]
    shutil.rmtree(raw)
    assert "3" in run(raw)[0]


def test_text_that_changed_since_is_refused(raw):
    run(raw)
    before = {path.name: path.read_bytes() for path in (raw.parent / "data").iterdir()}
    summary = json.loads(before[f"datagen.{NAME}.json"])
    assert list(summary["splits"]["train"]["raw_text"]) == ["inputs.train.txt", "targets.train.txt"]
    for name in ("targets.train.txt", "inputs.eval.txt"):
        text = (raw / name).read_text()
        (raw / name).write_text(text.replace(" a", " b"))  # as many bytes
        with pytest.raises(UserError, match=name):
            run(raw)
        assert {p.name: p.read_bytes() for p in (raw.parent / "data").iterdir()} == before
        (raw / name).write_text(text)
    (raw / "inputs.eval.txt").write_text("inputs b\n" * 3)
    run(raw, overwrite=True)
    assert "5" in run(raw)[0]


def test_the_same_text_packed_is_no_change(raw):
    run(raw)
    path = raw / "inputs.train.txt"
    (raw / "inputs.train.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert "5" in run(raw)[0]
    (raw / "inputs.train.txt.gz").write_bytes(gzip.compress(b"inputs b\n" * 41))
    with pytest.raises(UserError, match="train.txt"):
        run(raw)
