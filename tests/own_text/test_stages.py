"""The stages of t2t-own-text, with programs that only leave the files that the next one needs."""

import dataclasses
import json
import shlex
import sys
import types

import pytest

from t2t_repro import cli, files, process, provenance
from t2t_repro import stages as job
from t2t_repro.bin import own_text
from t2t_repro.errors import UserError
from t2t_repro.own_text import plan, stages
from t2t_repro.own_text.record import scores_of
from t2t_repro.run_directory import RunDirectory
from tests.own_text.left_files import run

STAGES = ["text", "plan", "training", "tuning", "test", "export_saved_model"]
PROGRAMS = ["datagen", "trainer", "trainer", "avg-all", "decoder", "exporter"]


def test_all_stages_once_and_a_record_and_a_page_of_them(programs, request_of, tmp_path):
    found, said = run(request_of())
    out = tmp_path / "out"
    assert list(found.stages) == STAGES and programs.names == PROGRAMS
    text = programs.called[0][1]
    assert text["test_size"] == "2" and text["random_seed"] == "0" and "drop_bad_pairs" in text
    # 40 minutes of 0.5 s a step, less 20 evaluations of 2 s, in two digits.
    training = programs.called[2][1]
    assert (training["train_steps"], training["local_eval_frequency"]) == ("4700", "230")
    assert (training["eval_bleu_sentences"], training["eval_early_stopping_steps"]) == ("7", "4700")
    assert training["hparams_set"] == "transformer_own_text_bidirectional"
    # a third of the steps, a quarter, and a fifth
    assert training["hparams"] == (
        "bidirectional_steps=1567,learning_rate_decay_steps=1175,learning_rate_warmup_steps=940,"
        "learning_rate=0.173448"
    )
    assert "--train_minutes=0" in said and "4,700 steps of 0.500 s" in said
    for name, stage in found.stages.items():
        assert f"  {stage.command}" in said, name
    assert "nocertify" in programs.called[1][1] and "nocertify" not in training
    assert not (out / "trial").exists() and json.loads((out / "plan.json").read_text())
    assert job.read(out / "own-text.json") == found
    assert set(found.inputs) == {str(tmp_path / side) for side in ("en", "de")}
    assert scores_of(found)["sentences"] == 2 and "signature" in scores_of(found)["sacrebleu"]
    certified = {score.name: score for score in provenance.read(out / "model").scores}
    assert certified["sacrebleu"].of == "test (2 sentences)" and "sentences" not in certified
    assert certified["chrf2"].signature == scores_of(found)["chrf2"]["signature"]
    page = (out / "index.html").read_text()
    assert "<td>a &lt;b&gt; &amp; c</td>" in page and "@" not in page.replace("@media", "")
    assert "img-src data:" in page and "the newest checkpoint" in page and "base64," in page
    assert 'sources, copied, score 100.00. A <a href="https' in page
    assert f"t2t-server --model=en-de={out / 'export' / 'saved_model'}" in said
    assert "/translate -d " + shlex.quote('{"inputs": "it\'s"}') in said
    assert f"t2t-show {out / 'model'} --verify" in said
    assert "found</a>: 3 pairs to leave out" in page and "<td>test</td>" in page
    assert "7 pairs are few: docs/own-text.md has fine-tuning" in said
    assert "2.5 BLEU" in said and "2.5 BLEU" in page  # no translator
    # The same again does nothing.
    del programs.called[:]
    again, said = run(request_of())
    assert again == found and not programs.called
    assert said.count(": done before, in ") == len(STAGES)


def test_the_folder_may_be_named_otherwise_or_move(programs, request_of, monkeypatch, tmp_path):
    found, _ = run(request_of())
    del programs.called[:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").rename(tmp_path / "text")  # a word of the commands, too
    for name in ("text", "../" + tmp_path.name + "/text"):
        again, _ = run(dataclasses.replace(request_of(), output_dir=name))
        assert again == found and not programs.called
    assert list(tmp_path.glob("text/*")) and not (tmp_path / "out").exists()


def test_it_goes_on_behind_what_is_done(programs, request_of):
    programs.fails = "t2t-avg-all"
    with pytest.raises(UserError, match="2"):
        run(request_of())
    assert programs.names == PROGRAMS[:4]
    programs.fails = ""
    del programs.called[:]
    found, _ = run(request_of())
    assert programs.names == PROGRAMS[3:] and list(found.stages) == STAGES


def test_a_test_that_was_not_scored_is_made_again(programs, request_of, tmp_path, monkeypatch):
    """Else the scores of an earlier training would be those of this one."""
    steadily = {"hparams": "learning_rate_schedule=legacy"}
    steadily["hparams_set"] = "transformer_own_text_small"
    run(request_of(train_steps=30, **steadily))

    def stop(*files):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stages, "score_files", stop)
        run(request_of(train_steps=90, **steadily))
    assert "test" not in job.read(tmp_path / "out" / "own-text.json").stages
    del programs.called[:]
    found, _ = run(request_of(train_steps=90, **steadily))
    assert programs.names == PROGRAMS[-2:]


def test_what_another_has_done_meanwhile_is_not_done_again(programs, request_of, monkeypatch):
    """Both were begun at once; this one waits for the other."""
    locked = files.locked

    def after_the_other(folders, say):
        monkeypatch.setattr(files, "locked", locked)
        run(request_of())
        del programs.called[:]
        return locked(folders, say)

    monkeypatch.setattr(files, "locked", after_the_other)
    run(request_of())
    assert not programs.called


def test_a_longer_training_makes_what_depends_on_it_anew(programs, request_of):
    steady = "learning_rate_schedule=legacy"
    steadily = {"hparams_set": "transformer_own_text_bidirectional", "hparams": steady}
    run(request_of(train_steps=30, **steadily))
    del programs.called[:]
    found, _ = run(request_of(train_steps=90, **steadily))
    assert programs.names == PROGRAMS[1:]
    training = programs.called[1][1]
    assert training["train_steps"] == "90" and list(found.stages) == STAGES
    assert training["hparams"].startswith(f"{steady},bidirectional_steps=10,")  # as it was begun


def test_a_model_whose_run_is_gone_is_told_before_it_trains(programs, request_of, tmp_path):
    run(request_of())
    of, model = tmp_path / "out" / "run", tmp_path / "out" / "model"
    RunDirectory(of).copy_description(RunDirectory(model))
    run(request_of())
    of.rename(tmp_path / "away")
    del programs.called[:]
    with pytest.raises(UserError, match=f"Expected {of}, .* move {model} away: the same"):
        run(request_of())
    assert not programs.called


def test_what_is_lost_is_made_again(programs, request_of, tmp_path):
    run(request_of())
    del programs.called[:]
    (tmp_path / "out" / "export" / "saved_model" / "saved_model.pb").unlink()
    run(request_of())
    assert programs.names == ["exporter"]


def test_other_text_is_refused(programs, request_of, tmp_path):
    run(request_of())
    before = (tmp_path / "out" / "own-text.json").read_text()
    with pytest.raises(UserError, match="--random_seed"):
        run(request_of(random_seed=3))
    (tmp_path / "de").write_text("x\n" * 40)
    with pytest.raises(UserError):
        run(request_of())
    (tmp_path / "fr").write_text("x\n" * 40)
    target = {"train_target": str(tmp_path / "fr"), "short": ("train_target",)}
    other = dataclasses.replace(request_of(), raw=dataclasses.replace(request_of().raw, **target))
    with pytest.raises(UserError):
        run(other)
    assert (tmp_path / "out" / "own-text.json").read_text() == before
    own = dataclasses.replace(request_of(), output_dir=str(tmp_path))
    with pytest.raises(UserError):
        run(own)


def test_text_and_folder_may_be_moved_and_named_otherwise(
    programs, request_of, tmp_path, monkeypatch
):
    run(request_of())
    del programs.called[:]
    begun, moved = request_of(), tmp_path / "moved"
    moved.mkdir()
    for name in ("out", "en", "de"):
        (tmp_path / name).rename(moved / name)
    monkeypatch.chdir(moved / "out")
    raw = dataclasses.replace(begun.raw, train_source="../en", train_target="../de")
    found, _ = run(dataclasses.replace(begun, raw=raw, output_dir="."))
    assert not programs.called and list(found.inputs) == [str(moved / "en"), str(moved / "de")]
    turned = dataclasses.replace(begun.raw, train_source="../de", train_target="../en")
    with pytest.raises(UserError):
        run(dataclasses.replace(begun, raw=turned, output_dir="."))


def test_flags_with_which_nothing_could_be_done_need_not_stay(programs, request_of):
    programs.fails = "t2t-datagen"
    with pytest.raises(UserError):
        run(request_of(random_seed=3))
    programs.fails = ""
    found, _ = run(request_of(random_seed=4))
    assert found.begun_with["random_seed"] == "4" and found.stages


def test_a_set_that_there_is_not_is_named_before_the_work(programs, request_of, tmp_path):
    with pytest.raises(UserError, match="transformer_tiny"):
        run(request_of(hparams_set="transformer_tinny"))
    assert not programs.called and not (tmp_path / "out").exists()


def test_the_files_of_a_vocabulary_are_part_of_the_record(programs, request_of, tmp_path):
    (tmp_path / "pieces").write_text("a\n")
    (tmp_path / "parent").mkdir()
    given = {
        "vocabulary": (("vocab_from", str(tmp_path / "parent")),),
        "vocabulary_files": (str(tmp_path / "pieces"),),
    }
    found, _ = run(request_of(**given))
    assert str(tmp_path / "pieces") in found.inputs
    (tmp_path / "pieces").write_text("b\n")
    with pytest.raises(UserError):
        run(request_of(**given))


def test_too_little_text_and_too_small_a_disk_are_refused(
    programs, request_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(plan, "room", lambda folder, models: 10**4)
    with pytest.raises(UserError, match="10"):
        run(request_of())
    for side in ("en", "de"):
        (tmp_path / side).write_text("a\n")
    request = dataclasses.replace(request_of(), output_dir=str(tmp_path / "other"))
    with pytest.raises(UserError, match="20"):
        run(request)


def test_a_disk_has_room_for_the_models_that_are_there(tmp_path, monkeypatch):
    used = types.SimpleNamespace(free=100)
    monkeypatch.setattr(plan.shutil, "disk_usage", lambda folder: used)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "weights").write_bytes(bytes(30))
    (tmp_path / "text").write_bytes(bytes(7))  # which the plan does not count
    assert plan.room(tmp_path, [tmp_path / "run", tmp_path / "model"]) == 130


def test_a_broken_record_is_named(programs, request_of, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "own-text.json").write_text('{"version": 7}')
    with pytest.raises(UserError, match="own-text.json"):
        run(request_of())


@pytest.mark.parametrize(
    "argv, named",
    [
        ([], "--source"),
        (["--source=a"], "--output_dir"),
        (["--source=a", "--train_source=b", "--output_dir=c"], "--train_source"),
        (["--source=a", "--output_dir=c", "--hparams=x=1"], "--hparams_set"),
        (["--source=/nothing", "--target=/a", "--output_dir=c"], "--source"),
        (["--target=a", "--output_dir=c"], "--source"),
        (["--source=a", "--output_dir=c", "--vocab=x", "--vocab_size=9"], "--vocab"),
    ],
)
def test_wrong_flags_end_in_one_line_and_load_nothing_heavy(argv, named, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.run("t2t-own-text", own_text.__doc__, own_text.define_flags, own_text.main, argv)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1 and named in error


def test_a_program_prints_and_ends_as_it_does_alone(capfd):
    assert process.program("t2t_repro.bin.bleu", "t2t-bleu", ["--help"]) == 0
    assert "Flags of t2t-bleu" in capfd.readouterr().out
    assert process.program("t2t_repro.bin.bleu", "t2t-bleu", ["--nothing"]) == 2
    assert "t2t-bleu: error: Unknown flag" in capfd.readouterr().err
    assert sys.argv[0] != "t2t-bleu"


def test_what_a_kill_leaves_of_the_first_record_is_not_in_the_way(tmp_path):
    record = tmp_path / "own-text.json"
    (tmp_path / f"{record.name}{files.INCOMPLETE}").write_text("")
    job.check_folder(record)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError):
        job.check_folder(record)
