import csv
import datetime
import json
import os
import shutil
import sys

import keras
import pytest

from t2t_repro import cli
from t2t_repro.bin import translate_all
from t2t_repro.errors import UserError
from t2t_repro.registry import get_hparams, get_problem
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints, model_state

PROBLEM = "algorithmic_identity_decimal40"


@pytest.fixture(scope="module")
def model():
    from t2t_repro.models.build import model_for

    hparams = get_hparams("transformer_test", "hidden_size=8,filter_size=12,num_hidden_layers=1")
    keras.utils.set_random_seed(1)
    return model_for(get_problem(PROBLEM), hparams, "")


@pytest.fixture
def run(model, tmp_path):
    """A run with the checkpoints 5 and 10 of an untrained model; each looks two minutes old."""
    directory = RunDirectory(tmp_path / "run")
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=model.hparams,
        problem=PROBLEM,
        data_dir=str(tmp_path),
        version="0",
    )
    directory.begin(config, ["t2t-trainer"], [])
    for step in (5, 10):
        path = model_state.save(directory.checkpoints_dir, model, checkpoints.State(step=step))
        os.utime(path, (1e9 + step, 1e9 + step))
    (tmp_path / "in").write_text("3 4 5\n7 1 2 9\n")
    (tmp_path / "right").write_text("3 4 5\n7 1 2 9\n")
    return directory


def program(run, *flags):
    flags = [f"--model_dir={run.path}", f"--source={run.path.parent / 'in'}", *flags]
    doc = translate_all.__doc__
    cli.run("t2t-translate-all", doc, translate_all.define_flags, translate_all.main, flags)


def test_a_reference_of_another_length_is_refused_before_the_work(run, tmp_path, capsys):
    (tmp_path / "right").write_text("3 4 5\n")
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        program(run, f"--translations_dir={out}", f"--reference={tmp_path / 'right'}")
    assert stopped.value.code == 2 and not out.exists()
    assert "Received: 1 lines for 2. Cut the longer one" in capsys.readouterr().err


def test_every_checkpoint_is_translated_and_scored_once(run, tmp_path, capsys):
    out = tmp_path / "out"
    flags = [f"--translations_dir={out}", f"--reference={tmp_path / 'right'}", "--beam_size=1"]
    program(run, *flags, "--decode_hparams=extra_length=3")
    said = capsys.readouterr()
    for step in (5, 10):
        file = out / f"{PROBLEM}-{step}"
        assert len(file.read_text().splitlines()) == 2 and file.stat().st_mtime == 1e9 + step
        assert f"{file}: " in said.out and f"Translating with {run.path}" in said.err
    rows = json.loads((out / "scores.json").read_text())
    assert [row["step"] for row in rows] == [5, 10]
    with open(out / "scores.csv") as file:
        table = list(csv.DictReader(file))
    assert [float(row["sacrebleu"]) for row in table] == [r["sacrebleu"]["score"] for r in rows]
    assert (out / "scores.png").read_bytes().startswith(b"\x89PNG")
    begun = datetime.datetime.fromisoformat(run.config().commands[0].split()[0])
    assert (out / "settings.json").stat().st_mtime == begun.timestamp()  # step 0 of t2t-bleu

    for folder, more in (("plain", ""), ("beams", ",return_beams=True")):
        where = f"--translations_dir={tmp_path / folder}"
        program(run, where, *flags[1:2], f"--decode_hparams=beam_size=2,extra_length=3{more}")
    tables = [(tmp_path / folder / "scores.csv").read_text() for folder in ("plain", "beams")]
    assert tables[0] == tables[1]
    capsys.readouterr()

    settings = json.loads((out / "settings.json").read_text())
    del settings["decode_hparams"]["shards"]  # as one had it that did not know the name
    (out / "settings.json").write_text(json.dumps(settings))
    checkpoints.delete(checkpoints.list_checkpoints(run.path)[0])  # as a trainer does
    program(run, *flags, "--decode_hparams=extra_length=3")
    said = capsys.readouterr()
    assert f"{out / PROBLEM}-5 exists already and is not translated again." in said.err
    assert "Translating" not in said.err
    os.utime(checkpoints.list_checkpoints(run.path)[0], (2e9, 2e9))  # it was trained anew
    program(run, *flags, "--decode_hparams=extra_length=3")
    assert "Translating" in capsys.readouterr().err
    assert (out / f"{PROBLEM}-10").stat().st_mtime == 2e9
    assert json.loads((out / "scores.json").read_text()) == rows
    with pytest.raises(SystemExit):
        program(run, *flags, "--alpha=0.7")
    error = capsys.readouterr().err
    assert "to hold translations made with the same decode_hparams. Received: another" in error


def test_another_run_is_refused_and_a_time_that_a_kill_left_is_mended(run, tmp_path, capsys):
    out = tmp_path / "out"
    flags = [f"--translations_dir={out}", "--decode_hparams=beam_size=1,extra_length=3"]
    program(run, *flags)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copytree(run.path, tmp_path / "other")
    with pytest.raises(SystemExit):
        program(RunDirectory(tmp_path / "other"), *flags)
    said = "to hold translations made with the same model_dir. Received: another"
    assert said in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    settings = json.loads((out / "settings.json").read_text())
    del settings["model_dir"]  # as one of old has none
    (out / "settings.json").write_text(json.dumps(settings))
    os.utime(out / f"{PROBLEM}-5", (3e9, 3e9))
    program(run, *flags)
    assert "Translating" not in capsys.readouterr().err
    assert (out / f"{PROBLEM}-5").stat().st_mtime == 1e9 + 5
    for step in (5, 10):  # as one leaves it that was stopped before the first line
        (out / f"{PROBLEM}-{step}").unlink()
    (out / "another-3.incomplete").touch()  # of another run's
    assert "the same decode_hparams" in refused(run, capsys, *flags[:1], "--alpha=0.7")
    (out / "another-3.incomplete").unlink()
    program(run, *flags, "--alpha=0.7")
    assert json.loads((out / "settings.json").read_text())["decode_hparams"]["alpha"] == 0.7


def test_a_model_in_chunks_aligns_words(run, model, tmp_path):
    chunks = model.hparams.override("attention_chunk_size=3,attention_dropout=0")
    (run.path / "hparams.json").write_text(chunks.to_json())
    how = "--decode_hparams=beam_size=1,extra_length=2,return_alignments=True"
    program(run, f"--translations_dir={tmp_path / 'out'}", how)
    for step in (5, 10):
        lines = (tmp_path / "out" / f"{PROBLEM}-{step}").read_text().splitlines()
        assert len(lines) == 2 and all("\t0-" in line for line in lines)


def test_new_checkpoints_are_waited_for_and_bad_ones_passed_over(run, model, tmp_path, make_clock):
    said = []
    (checkpoints.list_checkpoints(run.path)[0] / checkpoints.WEIGHTS).write_bytes(b"torn")

    def save(naps):
        if naps == 2:
            model_state.save(run.checkpoints_dir, model, checkpoints.State(step=20))

    clock = make_clock(save)
    request = translate_all.TranslateAllRequest(
        source=str(tmp_path / "in"),
        translations_dir=str(tmp_path / "out"),
        decode_hparams="beam_size=1,extra_length=2",
        wait_minutes=0.5,
    )
    found = translate_all.translate_all(
        trained_run(run.path), request, say=said.append, clock=clock
    )
    steps = [(file.step, scores) for file, scores in found]
    assert steps == [(10, None), (20, None)]
    assert clock.naps == 5  # two until the checkpoint, and half a minute more
    assert any(text.startswith("Passing over ckpt-5, which is gone or not whole.") for text in said)


def refused(run, capsys, *flags):
    with pytest.raises(SystemExit) as stopped:
        program(run, *flags, "--decode_hparams=beam_size=1,extra_length=2")
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_translations_that_nothing_describes_are_not_its_own(run, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{PROBLEM}-5").write_text("3 4 5\n7 1 2 9\n")
    error = refused(run, capsys, f"--translations_dir={out}")
    assert (
        f"settings.json beside them, which says what they were made with. Received: {PROBLEM}"
        in error
    )
    assert [path.name for path in out.iterdir()] == [f"{PROBLEM}-5"]
    (out / f"{PROBLEM}-5").rename(out / f"{PROBLEM}-5.incomplete")
    assert f"Received: {PROBLEM}-5.incomplete without" in refused(
        run, capsys, f"--translations_dir={out}"
    )
    (out / f"{PROBLEM}-5.incomplete").unlink()
    (out / "settings.json").write_text('{"editor": "mine"}')
    assert "made with the same editor" in refused(run, capsys, f"--translations_dir={out}")
    assert (out / "settings.json").read_text() == '{"editor": "mine"}'


def test_a_source_that_changes_meanwhile_is_refused(run, tmp_path):
    request = translate_all.TranslateAllRequest(
        source=str(tmp_path / "in"),
        translations_dir=str(tmp_path / "out"),
        decode_hparams="beam_size=1,extra_length=2",
    )
    found = translate_all.translate_all(trained_run(run.path), request)
    assert next(found)[0].step == 5
    (tmp_path / "in").write_text("3 4 5\n")
    with pytest.raises(UserError):
        next(found)
    assert not (tmp_path / "out" / f"{PROBLEM}-10").exists()


def test_no_whole_checkpoint_is_an_error(run, tmp_path, capsys):
    for path in checkpoints.list_checkpoints(run.path):
        (path / checkpoints.WEIGHTS).write_bytes(b"torn")
    error = refused(run, capsys, f"--translations_dir={tmp_path / 'out'}")
    assert "Expected a whole checkpoint in" in error and "Received: 2, of which none could" in error


def test_a_bad_source_is_refused_before_anything_is_written(run, tmp_path, capsys):
    source, out = tmp_path / "in", f"--translations_dir={tmp_path / 'out'}"
    for make, message in (
        (source.touch, "in. Received: an empty file."),
        (
            lambda: os.mkfifo(source),
            "--source to be a file, which is read more than once. Received: ",
        ),
        (source.mkdir, "--source to be a file. Received: "),
    ):
        source.unlink()
        make()
        assert message in refused(run, capsys, out)
    source.rmdir()
    source.write_text("3 4\n")
    for flag in ("--translations_dir=", "--reference="):
        refused(run, capsys, flag)
    assert not (tmp_path / "out").exists()


def test_without_checkpoints_or_with_trees_there_is_nothing_to_translate(
    run, tmp_path, capsys, monkeypatch
):
    for flags, name in [
        (["--min_steps=11"], "11"),
        (["--decoder_command=qsub {params}"], "--decoder_command"),
        (["--problem=algorithmic_sort_problem"], PROBLEM),
        (["--source="], "--source"),
        (["--reference=nowhere"], "nowhere"),
        (["--t2t_usr_dir=nowhere"], "nowhere"),
        (["--engine=quick"], "--engine"),
        (
            ["--engine=ctranslate2", "--decode_hparams=return_alignments=True"],
            "return_alignments",
        ),
    ]:
        with pytest.raises(SystemExit) as stop:
            program(run, f"--translations_dir={tmp_path / 'out'}", *flags)
        assert stop.value.code == 2 and name in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    out = tmp_path / "other"
    with pytest.raises(SystemExit):
        program(run, f"--translations_dir={out}", "--engine=ctranslate2")
    assert "Expected the package ctranslate2." in capsys.readouterr().err and not out.exists()
    text = (run.path / "run.json").read_text().replace(PROBLEM, "parsing_wsj4k")
    (run.path / "run.json").write_text(text)
    with pytest.raises(SystemExit):
        program(run, f"--translations_dir={tmp_path / 'out'}")
    error = capsys.readouterr().err
    assert "Expected a run that translates. Received: " in error and "of parsing_wsj4k" in error


@pytest.mark.slow
def test_each_checkpoint_by_the_engine_that_is_asked_for(run, tmp_path, capsys):
    flags = ["--beam_size=1", "--decode_hparams=extra_length=2"]
    for engine in ("tensorflow", "ctranslate2"):
        program(run, f"--translations_dir={tmp_path / engine}", f"--engine={engine}", *flags)
    for step in (5, 10):
        name = f"{PROBLEM}-{step}"
        assert len((tmp_path / "ctranslate2" / name).read_text().splitlines()) == 2
    assert not (run.path / "export").exists()
    with pytest.raises(SystemExit):
        program(run, f"--translations_dir={tmp_path / 'ctranslate2'}", *flags)
    assert "made with the same engine. Received: another" in capsys.readouterr().err
