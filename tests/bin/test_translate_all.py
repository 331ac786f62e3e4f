"""t2t-translate-all: which checkpoints translate a file, and what is not made again."""

import csv
import datetime
import json
import os
import shutil

import keras
import pytest

from t2t_repro.bin import translate_all
from t2t_repro.models.build import model_for
from t2t_repro.registry import get_hparams, get_problem
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests import untrained
from tests.programs import call

PROBLEM = "algorithmic_identity_decimal40"
SHORT = "--decode_hparams=beam_size=1,extra_length=2"


@pytest.fixture(scope="module")
def model():
    hparams = get_hparams("transformer_test", "hidden_size=8,filter_size=12,num_hidden_layers=1")
    keras.utils.set_random_seed(1)
    return model_for(get_problem(PROBLEM), hparams, "")


@pytest.fixture
def run(model, tmp_path):
    """A run with the checkpoints 5 and 10 of an untrained model, of long ago."""
    directory = untrained.begun(tmp_path / "run", "transformer_test", PROBLEM, model.hparams)
    for step in (5, 10):
        path = checkpoints.save(directory.checkpoints_dir, model, checkpoints.State(step=step))
        os.utime(path, (1e9 + step, 1e9 + step))
    for name in ("in", "right"):
        (tmp_path / name).write_text("3 4 5\n7 1 2 9\n")
    return directory


def program(run, *flags):
    call(translate_all, f"--model_dir={run.path}", f"--source={run.path.parent / 'in'}", *flags)


def test_every_checkpoint_is_translated_and_scored_once(run, tmp_path, capsys):
    out = tmp_path / "out"
    flags = [f"--translations_dir={out}", f"--reference={tmp_path / 'right'}", "--beam_size=1"]
    flags.append("--decode_hparams=extra_length=3")
    program(run, *flags, f"--problem={PROBLEM}", "--hparams_set=transformer_test")
    said = capsys.readouterr()
    for step in (5, 10):
        file = out / f"{PROBLEM}-{step}"
        assert len(file.read_text().splitlines()) == 2 and file.stat().st_mtime == 1e9 + step
        assert str(file) in said.out
    rows = json.loads((out / "scores.json").read_text())
    assert [row["step"] for row in rows] == [5, 10]
    with open(out / "scores.csv") as file:
        table = list(csv.DictReader(file))
    assert [float(row["sacrebleu"]) for row in table] == [r["sacrebleu"]["score"] for r in rows]
    assert (out / "scores.png").read_bytes().startswith(b"\x89PNG")
    begun = datetime.datetime.fromisoformat(run.config.commands[0].split()[0])
    assert (out / "settings.json").stat().st_mtime == begun.timestamp()  # step 0 of t2t-bleu

    written = {path.name: path.read_bytes() for path in out.glob(f"{PROBLEM}-*")}
    checkpoints.delete(checkpoints.list_checkpoints(run.path)[0])  # as a trainer does
    os.utime(out / f"{PROBLEM}-10", (3e9, 3e9))  # as a kill leaves it
    (out / f"{PROBLEM}-5").write_text("as it was\n" * 2)
    program(run, *flags)
    assert (out / f"{PROBLEM}-5").read_text() == "as it was\n" * 2
    assert (out / f"{PROBLEM}-10").stat().st_mtime == 1e9 + 10
    (out / f"{PROBLEM}-10").write_text("another\n" * 2)
    os.utime(out / f"{PROBLEM}-10", (1e9, 1e9))
    os.utime(checkpoints.list_checkpoints(run.path)[0], (2e9, 2e9))  # it was trained anew
    program(run, *flags)
    assert (out / f"{PROBLEM}-10").read_bytes() == written[f"{PROBLEM}-10"]
    assert (out / f"{PROBLEM}-10").stat().st_mtime == 2e9


def test_the_best_of_several_beams_is_scored(run, tmp_path):
    for folder, more in (("plain", ""), ("beams", ",return_beams=True")):
        how = f"--decode_hparams=beam_size=2,extra_length=3{more}"
        where = f"--translations_dir={tmp_path / folder}"
        program(run, where, f"--reference={tmp_path / 'right'}", how)
    tables = [(tmp_path / folder / "scores.csv").read_text() for folder in ("plain", "beams")]
    assert tables[0] == tables[1]


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


def test_a_model_in_chunks_aligns_words(run, model, tmp_path):
    chunks = model.hparams.override("attention_chunk_size=3,attention_dropout=0")
    (run.path / "hparams.json").write_text(chunks.to_json())
    program(run, f"--translations_dir={tmp_path / 'out'}", SHORT + ",return_alignments=True")
    for step in (5, 10):
        lines = (tmp_path / "out" / f"{PROBLEM}-{step}").read_text().splitlines()
        assert len(lines) == 2 and all("\t0-" in line for line in lines)


def test_new_checkpoints_are_waited_for_and_bad_ones_passed_over(run, model, tmp_path, make_clock):
    (checkpoints.list_checkpoints(run.path)[0] / checkpoints.WEIGHTS).write_bytes(b"torn")

    def save(naps):
        if naps == 2:
            checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=20))

    clock, said = make_clock(save), []
    request = translate_all.TranslateAllRequest(
        source=str(tmp_path / "in"),
        translations_dir=str(tmp_path / "out"),
        decode_hparams="beam_size=1,extra_length=2",
        wait_minutes=0.5,
    )
    found = translate_all.translate_all(
        trained_run(run.path), request, say=said.append, clock=clock
    )
    assert [(file.step, scores) for file, scores in found] == [(10, None), (20, None)]
    assert clock.naps == 5  # two until the checkpoint, and half a minute more
    assert any("ckpt-5" in text for text in said)


@pytest.mark.parametrize(
    "flags, name",
    [
        (["--problem=algorithmic_sort_problem"], PROBLEM),
        (["--source="], "--source"),
        (["--source=empty"], "empty"),
        (["--reference=nowhere"], "nowhere"),
        (["--reference=short"], "1 lines for 2"),
        (["--t2t_usr_dir=nowhere"], "nowhere"),
    ],
)
def test_what_is_refused_before_anything_is_written(
    run, tmp_path, monkeypatch, refused, flags, name
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_text("3 4 5\n")
    of = {"--model_dir": run.path, "--source": "in", "--translations_dir": "out"}
    of |= dict(each.split("=", 1) for each in (SHORT, *flags))
    assert name in refused(translate_all, *(f"{flag}={value}" for flag, value in of.items())).err
    assert not (tmp_path / "out").exists()


def test_no_whole_checkpoint(run, tmp_path, refused):
    of = [f"--model_dir={run.path}", f"--source={tmp_path / 'in'}"]
    of += [f"--translations_dir={tmp_path / 'out'}", SHORT]
    for path in checkpoints.list_checkpoints(run.path):
        (path / checkpoints.WEIGHTS).write_bytes(b"torn")
    assert str(run.checkpoints_dir) in refused(translate_all, *of).err
