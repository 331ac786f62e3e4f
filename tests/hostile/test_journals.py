"""What programs leave beside their files, broken in every way: passed over, or named in a line."""

import json

import pytest

from t2t_repro.data import journal as datagen_journal
from t2t_repro.decoding.journal import growing
from t2t_repro.scoring.files import files_by_step

DEEP = "[" * 100_000
SHAPES = {
    "null": "null",
    "list": "[1, 2]",
    "text": '"text"',
    "number": "5",
    "deep": DEEP,
    "a deep field": '{"splits": ' + DEEP,
    "not UTF-8": b"\xff\xfe{",
    "empty": "",
    "half": '{"settings": {',
    "nothing in it": "{}",
    "a lone surrogate": '{"group": "\\ud800"}',
}
COUNTS = {"examples": 7, **{n: {"inputs": 7, "targets": 7} for n in ("tokens", "longest", "empty")}}
JOURNAL = {
    "settings": (None, [], 5),
    "raw_files": (None, {"a": 5}, {"a": ["x", 1]}),
    "finished": (None, [], {"train": None}, {"train": {}}, {"dev": {**COUNTS, "examples": -1}}),
    "group": (None, 5, "nowhere"),
    "files": (None, "train", [5], []),
    "samples": (None, "7", -7, 7.5, 10**30, 8),
    "sizes": (None, "5", ["5"], [-5], [10**30], [5, 5, 5]),
    "statistics": (None, {}, [], {"examples": 7}, {**COUNTS, "tokens": 5}, {**COUNTS, "more": 5}),
    "complete": (None, "yes", 1, True),
    "more": (5,),
}
SUMMARY = {
    "splits": (None, [], 5, {"train": None}, {"train": {}}, {"train": {**COUNTS, "files": "x"}}),
    "vocab_files": (None, 5, {}),
    "problem": (None, 5),
    "random_seed": (None, "x"),
}
PROBLEM = "algorithmic_reverse_binary40_test"


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def datagen(call, tmp_path):
    """Makes data, with one training file; returns the folder."""

    def make():
        flags = f"--problem={PROBLEM} --data_dir={tmp_path} --tmp_dir={tmp_path / 'raw'} "
        return call("datagen", *flags.split(), "--max_cases=50", "--num_concurrent_processes=1")

    return make


def begun(monkeypatch, datagen, tmp_path):
    """Stops datagen behind its first journal; returns the journal's path and what it says."""
    with monkeypatch.context() as patch:
        save = datagen_journal.Journal.save

        def stop(self, job):
            save(self, job)
            raise KeyboardInterrupt

        patch.setattr(datagen_journal.Journal, "save", stop)
        assert datagen().code == 130
    path = tmp_path / f"datagen.{PROBLEM}.unfinished.json"
    return path, json.loads(path.read_text())


def records(folder):
    return {path.name: path.read_bytes() for path in folder.glob(f"{PROBLEM}-*-of-*")}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_journal_of_datagen(datagen, tmp_path, monkeypatch, shape):
    path, _ = begun(monkeypatch, datagen, tmp_path)
    put(path, SHAPES[shape])
    outcome = datagen()
    assert outcome.code == 0 and "Not going on" in outcome.err, outcome.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in JOURNAL.items() for value in values]
)
def test_a_field_of_a_journal_of_datagen(datagen, tmp_path, monkeypatch, name, value):
    path, told = begun(monkeypatch, datagen, tmp_path)
    path.write_text(json.dumps({**told, name: value}))
    outcome = datagen()
    assert outcome.code == 0, outcome.err
    made = records(tmp_path)
    for file in [*tmp_path.glob(f"*{PROBLEM}*")]:
        file.unlink()
    assert datagen().code == 0 and records(tmp_path) == made


@pytest.mark.parametrize("shape", SHAPES)
def test_a_summary(datagen, tmp_path, shape):
    assert datagen().code == 0
    summary = tmp_path / f"datagen.{PROBLEM}.json"
    put(summary, SHAPES[shape])
    assert datagen().code == 0
    put(tmp_path / "datagen.another.json", SHAPES[shape])
    assert datagen().code == 0


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SUMMARY.items() for value in values]
)
def test_a_field_of_a_summary(datagen, tmp_path, name, value):
    assert datagen().code == 0
    summary = tmp_path / f"datagen.{PROBLEM}.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), name: value}))
    outcome = datagen()
    assert outcome.code == 0, outcome.err


TOLD = {
    "job": (None, [], 5),
    "lines": (None, "1", -1, 1.5),
    "bytes": (None, 5, ["4"], [-4], [4, 4], [10**30], []),
    "whole": (None, "yes", 1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_journal_of_the_decoder(tmp_path, shape):
    begin(tmp_path)
    put(tmp_path / "out.incomplete.json", SHAPES[shape])
    go_on(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in TOLD.items() for value in values]
)
def test_a_field_of_a_journal_of_the_decoder(tmp_path, name, value):
    begin(tmp_path)
    journal = tmp_path / "out.incomplete.json"
    journal.write_text(json.dumps({**json.loads(journal.read_text()), name: value}))
    go_on(tmp_path)


def begin(folder):
    with pytest.raises(ZeroDivisionError), growing([folder / "out"], {"n": 1}, print) as files:
        files.add(["one\n"], 1)
        raise ZeroDivisionError


def go_on(folder):
    said = []
    with growing([folder / "out"], {"n": 1}, said.append) as files:
        assert files.lines == 0 and len(said) == 1 and "is of no use" in said[0]
        files.add(["one\n"], 1)
    assert (folder / "out").read_text() == "one\n"


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "nothing in it"])
@pytest.mark.parametrize("program", ["translate_all", "compare"])
def test_settings_of_a_folder(call, refused, trained, tmp_path, shape, program):
    (tmp_path / "in").write_text("0 1\n")
    flags = {
        "translate_all": (
            *(f"--model_dir={trained / 'run'}", f"--source={tmp_path / 'in'}"),
            f"--translations_dir={tmp_path}",
        ),
        "compare": (
            *(f"--problem={PROBLEM}", "--hparams_set=transformer_test"),
            *(f"--data_dir={trained / 'data'}", f"--output_dir={tmp_path}", "--depths=1"),
        ),
    }
    name = {"translate_all": "settings.json", "compare": "compare.json"}[program]
    put(tmp_path / name, SHAPES[shape])
    refused(call(program, *flags[program]), name)


def test_steps_in_names_of_files(call, tmp_path):
    for step in ("5", "9" * 18, "9" * 19, "1" * 30, "0" * 100):
        (tmp_path / f"out-{step}").write_text("a\n")
    (tmp_path / "reference").write_text("a\n")
    assert sorted(files_by_step(tmp_path)) == [5, 10**18 - 1]
    flags = (f"--translations_dir={tmp_path}", f"--reference={tmp_path / 'reference'}")
    outcome = call("bleu", *flags, f"--event_dir={tmp_path / 'events'}")
    assert outcome.code == 0, outcome.err
