"""t2t-translate-all: which checkpoints translate a file, and what is not made again."""

import csv
import datetime
import json
import os
import shutil

import pytest

from t2t_repro.bin import translate_all
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests import untrained
from tests.programs import call

PROBLEM = "algorithmic_identity_decimal40"
SHORT = "--decode_hparams=beam_size=1,extra_length=2"


@pytest.fixture
def run(run, tmp_path):
    """A run with the checkpoints 5 and 7, of long ago."""
    for path in checkpoints.list_checkpoints(run.path):
        os.utime(path, (1e9 + checkpoints.step_of(path),) * 2)
    for name in ("in", "right"):
        (tmp_path / name).write_text("3 4 5\n7 1 2 9\n")
    return run


def program(run, *flags):
    call(translate_all, f"--model_dir={run.path}", f"--source={run.path.parent / 'in'}", *flags)


def test_every_checkpoint_is_translated_and_scored_once(run, tmp_path, capsys):
    out = tmp_path / "out"
    flags = [f"--translations_dir={out}", f"--reference={tmp_path / 'right'}", "--beam_size=1"]
    flags.append("--decode_hparams=extra_length=3")
    program(run, *flags, f"--problem={PROBLEM}", "--hparams_set=transformer_test")
    said = capsys.readouterr()
    for step in (5, 7):
        file = out / f"{PROBLEM}-{step}"
        assert len(file.read_text().splitlines()) == 2 and file.stat().st_mtime == 1e9 + step
        assert str(file) in said.out
    rows = json.loads((out / "scores.json").read_text())
    assert [row["step"] for row in rows] == [5, 7]
    with open(out / "scores.csv") as file:
        table = list(csv.DictReader(file))
    assert [float(row["sacrebleu"]) for row in table] == [r["sacrebleu"]["score"] for r in rows]
    assert (out / "scores.png").read_bytes().startswith(b"\x89PNG")
    begun = datetime.datetime.fromisoformat(run.config.commands[0].split()[0])
    assert (out / "settings.json").stat().st_mtime == begun.timestamp()  # step 0 of t2t-bleu

    written = {path.name: path.read_bytes() for path in out.glob(f"{PROBLEM}-*")}
    checkpoints.delete(checkpoints.list_checkpoints(run.path)[0])  # as a trainer does
    (out / f"{PROBLEM}-5").write_text("as it was\n" * 2)
    (out / f"{PROBLEM}-7").write_text("another\n" * 2)
    os.utime(out / f"{PROBLEM}-7", (1e9, 1e9))
    os.utime(checkpoints.list_checkpoints(run.path)[0], (2e9, 2e9))  # it was trained anew
    program(run, *flags)
    assert (out / f"{PROBLEM}-5").read_text() == "as it was\n" * 2
    assert (out / f"{PROBLEM}-7").read_bytes() == written[f"{PROBLEM}-7"]
    assert (out / f"{PROBLEM}-7").stat().st_mtime == 2e9


def test_a_folder_holds_translations_of_one_making(run, tmp_path, refused):
    out = tmp_path / "out"
    program(run, f"--translations_dir={out}", SHORT)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copytree(run.path, tmp_path / "other")
    (tmp_path / "more").write_text("3\n")
    for model, source, more, name in (
        ("run", "in", ",alpha=0.7", "decode_hparams"),
        ("other", "in", "", "model_dir"),
        ("run", "more", "", "source"),
    ):
        of = [f"--model_dir={tmp_path / model}", f"--source={tmp_path / source}", SHORT + more]
        assert name in refused(translate_all, f"--translations_dir={out}", *of).err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "settings.json").unlink()
    of = [f"--model_dir={run.path}", f"--source={tmp_path / 'in'}", SHORT]
    assert "settings.json" in refused(translate_all, f"--translations_dir={out}", *of).err
    assert not (out / "settings.json").exists()


def test_new_checkpoints_are_waited_for_and_bad_ones_passed_over(run, tmp_path, make_clock, capsys):
    (checkpoints.list_checkpoints(run.path)[0] / checkpoints.WEIGHTS).write_bytes(b"torn")

    def save(naps):
        if naps == 2:
            untrained.save(run, 20)

    clock = make_clock(save)
    request = translate_all.TranslateAllRequest(
        source=str(tmp_path / "in"),
        translations_dir=str(tmp_path / "out"),
        decode_hparams="beam_size=1,extra_length=2",
        wait_minutes=0.5,
    )
    found = translate_all.translate_all(trained_run(run.path), request)
    assert [(file.step, scores) for file, scores in found] == [(7, None), (20, None)]
    assert clock.naps == 5  # two until the checkpoint, and half a minute more
    assert "ckpt-5" in capsys.readouterr().err
