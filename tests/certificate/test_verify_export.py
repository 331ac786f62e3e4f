"""An export's certificate, and verify.py in it, which needs nothing of this package."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from t2t_repro import cli
from t2t_repro.bin import show
from t2t_repro.certificate import certify, golden, record, verify, verify_export
from t2t_repro.certificate.verify_export import CHANGED, MISSING, NOTE, OK
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.interop import export
from t2t_repro.interop.form import ExportRequest
from t2t_repro.runs import trained_run

ALONE = """
import runpy, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "t2t_repro":
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def translated(texts):
    return [(text.upper(), -1.5) for text in texts]


@pytest.fixture
def exported(made, tmp_path, monkeypatch):
    """A folder of two files that is certified as a SavedModel which writes capitals."""
    folder = tmp_path / "export"
    (folder / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/data"):
        (folder / name).write_text(f"what {name} holds")
    run = trained_run(made / "run")
    certify.certify_export(
        run, run.checkpoint(), folder, "saved_model", DecodeHParams(beam_size=3), translated
    )
    monkeypatch.setattr(verify_export, "translations", lambda folder, texts: translated(texts))
    return folder


def states(folder):
    return {(c.part, c.what): c.state for c in verify_export.verify(folder) if c.state != OK}


def test_what_it_says(made, exported):
    found, of_run = record.read(exported), record.read(made / "run")
    assert (found.kind, found.step, found.decoding["beam_size"]) == ("saved_model", 9, 3)
    assert [by.program for by in found.made] == ["t2t-trainer", "t2t-exporter"]
    assert found.scores == of_run.scores and found.data.seeds == of_run.data.seeds
    assert [file.path for file in found.data.raw_files] == ["source", "target"]
    assert found.data.raw_files[0].sha256 == of_run.data.raw_files[0].sha256
    assert str(made) not in (exported / record.NAME).read_text()
    assert [file.path for file in found.files] == ["saved_model.pb", "variables/data"]
    assert [each.translation for each in found.golden] == [
        each.source.upper() for each in of_run.golden
    ]


def test_what_is_changed_is_named(exported, monkeypatch, capsys):
    assert states(exported) == {}
    for name in ("saved_model.pb", "variables/data", record.NAME):
        before = (exported / name).read_bytes()
        (exported / name).write_bytes(before.replace(b"a", b"b", 1))
        part = "certificate" if name == record.NAME else "export"
        assert states(exported)[part, name] == CHANGED
        (exported / name).write_bytes(before)
    (exported / "variables" / "data").unlink()
    assert states(exported) == {("export", "variables/data"): MISSING}
    monkeypatch.setattr(verify_export, "__file__", str(exported / "verify.py"))
    assert verify_export.main() == 1
    assert capsys.readouterr().out.endswith("1 of 23 are not as they were.\n")
    (exported / "variables" / "data").write_text("what variables/data holds")
    assert verify_export.main() == 0
    assert capsys.readouterr().out.endswith("All 23 are as they were.\n")


def test_other_translations_and_what_cannot_be_loaded(exported, monkeypatch, capsys):
    def fails(folder, texts):
        raise RuntimeError("no such signature\nand more")

    for make, part in (
        (lambda folder, texts: [(text, -1.5) for text in texts], "translations"),
        (lambda folder, texts: [(text, -1.6) for text, _ in translated(texts)], "translations"),
        (
            lambda folder, texts: [(text, float("nan")) for text, _ in translated(texts)],
            "translations",
        ),
        (fails, "export"),
    ):
        monkeypatch.setattr(verify_export, "translations", make)
        found = states(exported)
        assert {where for where, _ in found} == {part} and set(found.values()) == {CHANGED}
        assert len(found) == (1 if part == "export" else golden.COUNT)
    with pytest.raises(SystemExit) as left:
        cli.run("", "", show.define_flags, show.main, [f"--output_dir={exported}", "--verify"])
    assert left.value.code == 1 and "RuntimeError: no such signature" in capsys.readouterr().out


def test_a_certificate_that_is_no_json_or_has_no_sentences(made, exported, tmp_path):
    path = exported / record.NAME
    text = path.read_text()
    path.write_text(text[:100])
    assert states(exported) == {
        ("certificate", record.NAME): CHANGED,
        ("export", str(exported)): CHANGED,
    }
    assert verify.kind_of(exported) == "saved_model"
    cut = json.loads(text) | {"golden": [], "seal": 64 * "0"}
    path.write_text(verify_export.sealed(json.dumps(cut, indent=1, ensure_ascii=False) + "\n"))
    assert states(exported) == {("translations", "there are none to repeat"): NOTE}


@pytest.mark.slow
def test_verify_py_needs_nothing_of_this_package(made, tmp_path):
    request = ExportRequest(export_dir=str(tmp_path / "7"), decode_hparams="beam_size=2")
    folder = export.export(trained_run(made / "run"), request, lambda line: None)
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)

    def alone():
        command = [sys.executable, "-c", ALONE, str(elsewhere / "verify.py")]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, cwd="/", env=environment
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    code, lines, errors = alone()
    assert code == 0, "\n".join([*lines[-24:], errors])
    assert sum(line.startswith("ok        translations") for line in lines) == golden.COUNT
    assert {each["path"] for each in json.loads((elsewhere / record.NAME).read_text())["files"]} > {
        "verify.py",
        "README.md",
        "saved_model.pb",
    }
    data = next((elsewhere / "variables").glob("*.data*"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 64
    data.write_bytes(content)
    code, lines, _ = alone()
    assert code == 1 and f"CHANGED   export        variables/{data.name}" in lines


@pytest.mark.slow
def test_an_export_for_ctranslate2_is_shown(made, tmp_path, capsys):
    path = tmp_path / "ct2"
    request = ExportRequest(format="ctranslate2", export_dir=str(path), quantize="int8")
    export.export(trained_run(made / "run"), request, lambda line: None)
    argv = [f"--output_dir={path}", "--verify"]
    cli.run("t2t-show", "", show.define_flags, show.main, argv)
    out = capsys.readouterr().out
    assert out.count("ok        translations") == golden.COUNT
    name = next(pathlib.Path(path).glob("vocab*")).name
    (path / name).write_text("'a_'\n")
    with pytest.raises(SystemExit) as left:
        cli.run("t2t-show", "", show.define_flags, show.main, argv)
    out = capsys.readouterr().out
    assert left.value.code == 1 and f"CHANGED   export        {name}" in out
    assert "are not repeated" in out
