import pytest
from absl import flags

from t2t_repro import cli
from t2t_repro.bin import trainer, unread_flags
from t2t_repro.errors import UserError


def check(*argv, kept=None):
    given = flags.FlagValues()
    trainer.define_flags(given)
    given(["t2t-trainer", *argv])
    unread_flags.check(given, kept or {})


@pytest.mark.parametrize(
    "schedule, flag",
    [
        ("train", "--eval_steps=3"),
        ("train", "--eval_use_test_set"),
        ("train", "--eval_throttle_seconds=60"),
        ("train", "--samples_every=7"),
        ("evaluate", "--samples_every=7"),
        ("evaluate", "--keep_best=3"),
        ("evaluate", "--best_metric=accuracy"),
        ("evaluate", "--eval_early_stopping_steps=9"),
        ("evaluate", "--warm_start_from=run"),
        ("evaluate", "--local_eval_frequency=50"),
        ("evaluate", "--save_checkpoints_secs=50"),
        ("evaluate", "--keep_checkpoint_max=5"),
        ("evaluate", "--max_nonfinite_steps=5"),
        ("evaluate", "--restart_damaged_run"),
        ("evaluate", "--certify"),
        ("evaluate", "--find_batch_size"),
    ],
)
def test_what_a_schedule_does_not_read_is_refused(schedule, flag):
    name = flag.partition("=")[0]
    said = f"{name} has no effect with --schedule={schedule}. Received: both. Leave one of them out"
    with pytest.raises(UserError, match=said):
        check(f"--schedule={schedule}", flag)
    check(f"--schedule={schedule}")
    if name not in ("--best_metric", "--find_batch_size"):
        check(flag)


def test_the_schedule_that_a_run_has_kept_counts_unless_another_is_given():
    said = "--samples_every has no effect with --schedule=train, which the run has kept.*name anoth"
    with pytest.raises(UserError, match=said):
        check("--samples_every=7", kept={"schedule": "train"})
    check("--samples_every=7", "--schedule=train_and_evaluate", kept={"schedule": "train"})


def test_what_a_schedule_reads_is_taken():
    check("--schedule=train", "--local_eval_frequency=50", "--keep_checkpoint_max=5", "--certify")
    check("--schedule=evaluate", "--eval_steps=3", "--eval_use_test_set", "--train_steps=9")
    check("--schedule=evaluate", "--nocertify", "--norestart_damaged_run")


@pytest.mark.parametrize(
    "flag, needs",
    [
        ("--best_metric=loss", "--keep_best=2"),
        ("--memory_limit_mb=7", "--find_batch_size"),
        ("--warm_start_partial", "--warm_start_from=run"),
        ("--eval_early_stopping_metric=loss", "--eval_early_stopping_steps=9"),
    ],
)
def test_what_is_read_beside_another_flag_alone_is_refused_without_it(flag, needs):
    name, other = (each.partition("=")[0] for each in (flag, needs))
    with pytest.raises(UserError, match=f"{name} has no effect without {other}.* it alone. Leave"):
        check(flag)
    check(flag, needs)
    check(flag, kept={needs.strip("-").partition("=")[0]: 7})  # the run has it


def test_the_program_refuses_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        argv = ["--output_dir=run", "--schedule=evaluate", "--keep_best=2"]
        cli.run("t2t-trainer", "", trainer.define_flags, trainer.main, argv)
    assert stopped.value.code == 2 and not list(tmp_path.iterdir())
    assert "--keep_best has no effect with --schedule=evaluate" in capsys.readouterr().err
