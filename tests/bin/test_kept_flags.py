"""A run goes on as it was begun by its folder alone, with the flags that its run.json keeps."""

import dataclasses
import json
import os

import pytest

from t2t_repro import cli
from t2t_repro.bin import trainer
from t2t_repro.training.best import KeepBest
from t2t_repro.training.early_stopping import EarlyStopping

BEGIN = (
    *("--problem=algorithmic_reverse_binary40_test", "--hparams_set=transformer_test"),
    *("--data_dir=data", "--output_dir=o"),
)


def run(*argv):
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, list(argv))


@pytest.fixture
def begun(asked):
    """Asks for a run with flags, and begins it; returns the request."""

    def begin(*argv):
        run(*(argv if "--output_dir=o" in argv else (*BEGIN, *argv)))
        asked[-1].run.begin(asked[-1].config, ["t2t-trainer"], [])
        return asked[-1]

    return begin


def test_the_folder_alone_goes_on_as_it_was_begun(begun):
    first = begun(
        *("--keep_checkpoint_max=40", "--local_eval_frequency=70", "--max_nonfinite_steps=3"),
        *("--keep_best=2", "--best_metric=accuracy", "--eval_early_stopping_steps=900"),
        *("--eval_early_stopping_metric_delta=0.25", "--eval_steps=0", "--samples_every=0"),
        *("--worker_gpu=2", "--train_steps=50"),
    )
    plan = first.plan
    assert (plan.keep_checkpoint_max, plan.local_eval_frequency) == (40, 70)
    for again in (begun("--output_dir=o"), begun("--output_dir=o")):
        assert again.plan == plan and again.config == first.config
        assert (again.eval_steps, again.samples_every, again.worker_gpu) == (0, 0, 2)
    assert plan.early_stopping == EarlyStopping(steps=900, metric_delta=0.25)
    assert plan.keep_best == KeepBest(count=2, metric="accuracy")


def test_what_the_command_says_goes_before_and_is_kept(begun):
    begun("--keep_best=2", "--local_eval_frequency=70", "--eval_early_stopping_steps=900")
    begun("--output_dir=o", "--keep_best=0", "--eval_early_stopping_steps=0", "--eval_steps=5")
    last = begun("--output_dir=o")
    assert (last.plan.keep_best, last.plan.early_stopping, last.eval_steps) == (None, None, 5)
    assert last.plan.local_eval_frequency == 70


def test_a_flag_may_stand_alone_beside_the_one_that_is_kept(begun):
    begun("--keep_best=2", "--save_checkpoints_secs=60", "--eval_early_stopping_steps=900")
    plan = begun("--output_dir=o", "--best_metric=accuracy", "--local_eval_frequency=30").plan
    assert plan.keep_best == KeepBest(count=2, metric="accuracy")
    assert (plan.save_checkpoints_secs, plan.local_eval_frequency) == (0, 30)
    plan = begun("--output_dir=o", "--eval_early_stopping_metric_delta=0.5").plan
    assert plan.early_stopping == EarlyStopping(steps=900, metric_delta=0.5)


def test_what_is_done_at_the_end_is_kept_and_not_asked_of_an_evaluation(asked, monkeypatch):
    begin = ["--problem=text2text_tmpdir", "--hparams_set=transformer_test", "--data_dir=data"]
    monkeypatch.setattr(
        trainer, "finish", lambda request: asked.append(f"finish {request.certify}")
    )
    monkeypatch.setattr(trainer, "check_tables", lambda request: None)
    run(*begin, "--output_dir=o", "--finish", "--nocertify")
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    run("--output_dir=o")
    assert asked[1::2] == ["finish False"] * 2
    run("--output_dir=o", "--schedule=evaluate")
    run("--output_dir=o", "--nofinish")
    assert len(asked) == 6


def test_the_devices_that_train_are_not_those_that_evaluate(begun, asked):
    begun("--worker_gpu=2")
    run("--output_dir=o", "--schedule=evaluate")
    assert asked[-1].schedule == "evaluate" and asked[-1].worker_gpu is None
    assert begun("--output_dir=o").worker_gpu == 2


def test_a_damaged_run_is_begun_again_once(begun):
    assert begun("--restart_damaged_run").plan.restart_damaged_run
    assert not begun("--output_dir=o").plan.restart_damaged_run


def test_without_evaluations_those_flags_are_not_read(begun):
    begun("--keep_best=2", "--eval_bleu_sentences=0", "--eval_early_stopping_steps=900")
    plan = begun("--output_dir=o", "--schedule=train").plan
    assert (plan.keep_best, plan.early_stopping) == (None, None)
    again = begun("--output_dir=o")
    assert (again.schedule, again.plan) == ("train", plan)
    begun("--output_dir=o", "--keep_best=0", "--schedule=train")
    plan = begun("--output_dir=o", "--schedule=continuous_train_and_eval").plan
    assert plan.early_stopping == EarlyStopping(steps=900) and plan.keep_best is None


def test_the_quickstart_keeps_them_too(asked):
    run("--output_dir=o", "--keep_checkpoint_max=3")
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    run("--output_dir=o")
    assert asked[1].plan == asked[0].plan and asked[1].plan.keep_checkpoint_max == 3
    assert asked[1].config == asked[0].config


def test_a_run_of_another_program_leaves_them(begun):
    first = begun("--keep_checkpoint_max=40")
    first.run.begin(dataclasses.replace(first.config, options=None), ["other"], [])
    assert begun("--output_dir=o").plan.keep_checkpoint_max == 40


@pytest.mark.parametrize(
    "given, unread",
    [
        ("--schedule=train --eval_steps=3", "--eval_steps"),
        ("--schedule=train --eval_throttle_seconds=60", "--eval_throttle_seconds"),
        ("--schedule=train --samples_every=7 --keep_best=2", "--samples_every, --keep_best"),
        ("--schedule=evaluate --keep_best=3 --plan", "--keep_best, --plan"),
        ("--schedule=evaluate --local_eval_frequency=50 --nocertify", "--local_eval_frequency"),
        ("--schedule=evaluate --eval_steps=3 --eval_use_test_set --train_steps=9", ""),
        ("--best_metric=loss", "--best_metric"),
        ("--best_metric=loss --keep_best=2", ""),
        ("--warm_start_partial", "--warm_start_partial"),
        ("--eval_early_stopping_metric=loss", "--eval_early_stopping_metric"),
        ("--eval_early_stopping_metric=loss --eval_early_stopping_steps=9", ""),
    ],
)
def test_what_is_given_and_not_read_is_one_warning(asked, capsys, given, unread):
    run(*BEGIN, *given.split())
    assert len(asked) == 1
    warned = [line for line in capsys.readouterr().err.splitlines() if " had no effect" in line]
    assert len(warned) == bool(unread) and all(unread in line for line in warned)


def test_what_the_run_keeps_reads_what_is_given(begun, capsys):
    begun("--keep_best=2")
    begun("--output_dir=o", "--best_metric=accuracy")
    assert "had no effect" not in capsys.readouterr().err


@pytest.fixture
def parents(tmp_path):
    """Folders with a checkpoint each, by name."""
    for name in ("parent", "other"):
        (tmp_path / name / "checkpoints" / "ckpt-7").mkdir(parents=True)
    return tmp_path


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as stopped:
        run(*argv)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_run_that_has_no_checkpoint_yet_begins_with_its_parent_again(begun, parents, capsys):
    begun("--warm_start_from=parent", "--warm_start_partial")
    (parents / "elsewhere").mkdir()
    os.chdir(parents / "elsewhere")
    run(f"--output_dir={parents / 'o'}")
    os.chdir(parents)
    again = begun("--output_dir=o")
    assert again.warm_start_from == str(parents / "parent") and again.warm_start_partial
    (parents / "parent").rename(parents / "moved")
    assert "Expected a checkpoint in" in refused(capsys, "--output_dir=o")
    assert begun("--output_dir=o", "--warm_start_from=moved").warm_start_from == "moved"


def test_a_run_past_its_start_takes_no_other_weights(begun, parents, capsys):
    first = begun("--warm_start_from=parent")
    path = first.run.path
    (path / "checkpoints" / "ckpt-1").mkdir(parents=True)
    taken = parents / "parent" / "checkpoints" / "ckpt-7"
    (path / "warm-start.json").write_text(json.dumps({"checkpoint": str(taken), "step": 7}))
    for same in ("parent", "parent/checkpoints", "parent/checkpoints/ckpt-7"):
        begun("--output_dir=o", f"--warm_start_from={same}")
    error = refused(capsys, "--output_dir=o", "--warm_start_from=other")
    assert f"its own checkpoint: it began with the weights of {taken}. Received: " in error
    (path / "warm-start.json").unlink()
    error = refused(capsys, "--output_dir=o", "--warm_start_from=other")
    assert "it began with random weights. Received: --warm_start_from=other." in error
    begun("--output_dir=o", "--warm_start_from=other", "--restart_damaged_run")


def test_nothing_is_no_parent_and_a_parent_is_no_quickstart(asked, capsys):
    error = refused(capsys, *BEGIN, "--warm_start_from=")
    assert "--warm_start_from" in error
    error = refused(capsys, "--warm_start_from=parent", "--output_dir=o")
    assert "--problem and --data_dir" in error and not asked
