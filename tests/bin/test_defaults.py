"""What t2t-trainer trains where its flags say little, and how a run goes on by its folder alone."""

import json
import os
import pathlib
import types

import pytest

from t2t_repro import registry
from t2t_repro.bin import quickstart, trainer
from t2t_repro.training.best import EarlyStopping, KeepBest
from tests.machines import EIGHT
from tests.programs import call

BEGIN = (
    *("--problem=algorithmic_reverse_binary40_test", "--hparams_set=transformer_test"),
    *("--data_dir=data", "--output_dir=o"),
)


def run(*argv):
    call(trainer, *argv)


@pytest.mark.parametrize(
    "hparams_set, problem",
    [
        ("transformer_big", "translate_ende_wmt14"),
        ("transformer_big_enfr", "translate_enfr_wmt14"),
        ("paper_parsing_semi_supervised", "parsing_wsj_semi32k"),
    ],
)
def test_a_set_alone_means_the_problem_that_it_was_made_for(asked, hparams_set, problem):
    run(f"--hparams_set={hparams_set}")
    (request,) = asked
    assert (request.config.problem, request.config.hparams_set) == (problem, hparams_set)
    assert request.config.hparams == registry.get_hparams(hparams_set)
    assert request.config.data_dir == os.path.abspath("t2t_data")
    assert request.run.path == pathlib.Path("t2t_runs", hparams_set)
    assert request.job is not None


def test_data_that_are_there_are_not_made(asked, prepared):
    run("--hparams_set=transformer_big")
    assert asked[0].job is None
    next(prepared.glob("*-dev-*")).unlink()
    run("--hparams_set=transformer_big")
    assert asked[1].job is not None


def test_the_readmes_first_commands_work_before_and_after(asked):
    """The run of each has a folder of its own."""
    for argv in (
        *([], ["--hparams_set=transformer_big", "--random_seed=5"], []),
        *(["--hparams_set=transformer_quickstart"], ["--hparams_set=transformer_big"]),
    ):
        run(*argv)
        asked[-1].run.begin(asked[-1].config, ["t2t-trainer", *argv], [])
    names = ["quickstart", "big", "quickstart", "quickstart", "big"]
    assert [of.config.hparams_set for of in asked] == [f"transformer_{name}" for name in names]
    assert asked[0].config.problem == quickstart.PROBLEM and asked[4].config.random_seed == 5
    assert str(asked[2].run.path) == quickstart.OUTPUT_DIR and asked[4].job is not None


@pytest.mark.parametrize("where", [[], ["--output_dir=o"]])
def test_the_quickstart_goes_on_as_it_was_begun(asked, where):
    changed = ["--random_seed=3", "--hparams=batch_size=999", "--train_steps=70"]
    run(*where, *changed, "--keep_checkpoint_max=3")
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    for again in ([], changed):
        run(*where, *again)
        assert asked[-1].config == asked[0].config and asked[-1].run.path == asked[0].run.path
        assert asked[-1].plan == asked[0].plan and asked[-1].plan.keep_checkpoint_max == 3
    run(*where, "--schedule=evaluate")
    assert asked[-1].config.hparams == asked[0].config.hparams and asked[-1].schedule == "evaluate"
    run(*where, "--hparams_set=transformer_quickstart", *changed)
    assert asked[-1].config == asked[0].config
    begun = len(asked)
    for other in ("--hparams=hidden_size=24", "--hparams_set=transformer_quickstart"):
        with pytest.raises(SystemExit):  # the second names none of what was changed
            run(*where, other)
    assert len(asked) == begun
    run(*where, "--random_seed=4", "--hparams=batch_size=7")
    config = asked[-1].config
    assert (config.random_seed, config.hparams.batch_size) == (4, 7)


def test_a_run_is_certified_and_finished(asked, monkeypatch):
    made = []
    monkeypatch.setattr(
        "t2t_repro.provenance.write_of_run", lambda *of, data_dir: made.append(of[1])
    )
    finished, there = [], types.SimpleNamespace(on=lambda where: where)
    monkeypatch.setattr("t2t_repro.decoding.tune.tune", lambda run, *of: finished.append(run))
    monkeypatch.setattr(trainer, "trained_run", lambda path, data_dir: there)
    monkeypatch.setattr("t2t_repro.training.devices.here", lambda worker_gpu: f"{worker_gpu} GPUs")
    run("--hparams_set=transformer_big", "--finish", "--worker_gpu=3")
    assert made == ["t2t-trainer", "t2t-avg-all"] and finished == ["3 GPUs"]
    asked[0].run.begin(asked[0].config, ["t2t-trainer"], [])
    run("--hparams_set=transformer_big")
    assert len(finished) == 2
    run("--hparams_set=transformer_big", "--schedule=evaluate")
    run("--hparams_set=transformer_big", "--nofinish")
    assert len(finished) == 2 and made[4:] == ["t2t-trainer"] and len(asked) == 4


@pytest.mark.parametrize(
    "hparams_set, flag",
    [("transformer_own_text_small", "--train_source="), ("paper_parsing_wsj", "--treebank_dir=")],
)
def test_files_of_the_user_are_t2t_datagens_to_take(on, refused, tmp_path, hparams_set, flag):
    begun, line = on(EIGHT), [f"--hparams_set={hparams_set}", "--tmp_dir=none"]
    error = refused(trainer, *line).err
    assert "t2t-datagen --problem=" in error and flag in error and not begun
    run(*line, "--plan")
    assert not begun and not list(tmp_path.iterdir())
    run(*line, "--yes")
    assert len(begun) == 2


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
        *("--eval_early_stopping_metric_delta=0.25", "--eval_steps=0"),
        *("--worker_gpu=2", "--train_steps=50"),
    )
    plan = first.plan
    assert (plan.keep_checkpoint_max, plan.local_eval_frequency) == (40, 70)
    assert plan.early_stopping == EarlyStopping(steps=900, metric_delta=0.25)
    assert plan.keep_best == KeepBest(count=2, metric="accuracy")
    for again in (begun("--output_dir=o"), begun("--output_dir=o")):
        assert again.plan == plan and again.config == first.config
        assert (again.eval_steps, again.worker_gpu) == (0, 2)
    evaluation = begun("--output_dir=o", "--schedule=evaluate")
    assert evaluation.worker_gpu is None  # that train, and not those that evaluate


def test_what_the_command_says_goes_before_and_is_kept(begun):
    begun("--keep_best=2", "--save_checkpoints_secs=60", "--eval_early_stopping_steps=900")
    plan = begun("--output_dir=o", "--best_metric=accuracy", "--local_eval_frequency=30").plan
    assert plan.keep_best == KeepBest(count=2, metric="accuracy")
    assert (plan.save_checkpoints_secs, plan.local_eval_frequency) == (0, 30)
    plan = begun("--output_dir=o", "--eval_early_stopping_metric_delta=0.5").plan
    assert plan.early_stopping == EarlyStopping(steps=900, metric_delta=0.5)
    begun("--output_dir=o", "--keep_best=0", "--eval_early_stopping_steps=0", "--eval_steps=5")
    last = begun("--output_dir=o")
    assert (last.plan.keep_best, last.plan.early_stopping, last.eval_steps) == (None, None, 5)
    assert last.plan.local_eval_frequency == 30


def test_without_evaluations_those_flags_are_not_read(begun):
    begun("--keep_best=2", "--eval_bleu_sentences=0", "--eval_early_stopping_steps=900")
    plan = begun("--output_dir=o", "--schedule=train").plan
    assert (plan.keep_best, plan.early_stopping) == (None, None)
    again = begun("--output_dir=o")
    assert (again.schedule, again.plan) == ("train", plan)
    begun("--output_dir=o", "--keep_best=0", "--schedule=train")
    plan = begun("--output_dir=o", "--schedule=continuous_train_and_eval").plan
    assert plan.early_stopping == EarlyStopping(steps=900) and plan.keep_best is None


@pytest.mark.parametrize(
    "given, unused",
    [
        ("--schedule=train --eval_steps=3", "--eval_steps"),
        ("--schedule=train --eval_bleu_sentences=7 --keep_best=2", "--eval_bleu_sentences, --kee"),
        ("--schedule=evaluate --keep_best=3 --plan", "--keep_best, --plan"),
        ("--schedule=evaluate --eval_steps=3 --eval_use_test_set --train_steps=9", ""),
        ("--best_metric=loss", "--best_metric"),
        ("--best_metric=loss --keep_best=2", ""),
        ("--eval_early_stopping_metric=loss", "--eval_early_stopping_metric"),
        ("--eval_early_stopping_metric=loss --eval_early_stopping_steps=9", ""),
    ],
)
def test_what_is_given_and_not_read_is_one_warning(asked, capsys, given, unused):
    run(*BEGIN, *given.split())
    assert len(asked) == 1
    warned = [line for line in capsys.readouterr().err.splitlines() if "Warning: " in line]
    assert len(warned) == bool(unused) and all(unused in line for line in warned)


@pytest.fixture
def parents(tmp_path):
    """Folders with a checkpoint each, by name."""
    for name in ("parent", "other"):
        (tmp_path / name / "checkpoints" / "ckpt-7").mkdir(parents=True)
    return tmp_path


def test_a_run_that_has_no_checkpoint_yet_begins_with_its_parent_again(
    begun, parents, monkeypatch, refused
):
    begun("--warm_start_from=parent", "--warm_start_partial")
    (parents / "elsewhere").mkdir()
    monkeypatch.chdir(parents / "elsewhere")
    run(f"--output_dir={parents / 'o'}")
    monkeypatch.chdir(parents)
    again = begun("--output_dir=o")
    assert again.warm_start_from == str(parents / "parent") and again.warm_start_partial
    (parents / "parent").rename(parents / "moved")
    assert str(parents / "parent") in refused(trainer, "--output_dir=o").err
    assert begun("--output_dir=o", "--warm_start_from=moved").warm_start_from == "moved"


def test_a_run_past_its_start_takes_no_other_weights(begun, parents, refused):
    path = begun("--warm_start_from=parent").run.path
    (path / "checkpoints" / "ckpt-1").mkdir(parents=True)
    taken = parents / "parent" / "checkpoints" / "ckpt-7"
    (path / "warm-start.json").write_text(json.dumps({"checkpoint": str(taken), "step": 7}))
    for same in ("parent", "parent/checkpoints", "parent/checkpoints/ckpt-7"):
        begun("--output_dir=o", f"--warm_start_from={same}")
    error = refused(trainer, "--output_dir=o", "--warm_start_from=other").err
    assert str(taken) in error and "--warm_start_from=other" in error
    (path / "warm-start.json").unlink()
    refused(trainer, "--output_dir=o", "--warm_start_from=other")
    refused(trainer, "--output_dir=o", "--warm_start_from=")  # random weights, if it meant nothing
