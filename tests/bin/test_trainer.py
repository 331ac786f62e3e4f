import os
import re
import signal
import subprocess
import sys
import time

import pytest

from t2t_repro import provenance, registry
from t2t_repro.bin import quickstart, trainer
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.log import TrainingLog
from tests.programs import call

TINY = "num_hidden_layers=1,batch_size=256"
PROBLEM = "algorithmic_reverse_binary40_test"


def run(*argv):
    call(trainer, *argv)


@pytest.fixture
def flags(tmp_path):
    return [
        f"--problem={PROBLEM}",
        "--hparams_set=transformer_test",
        f"--hparams={TINY}",
        f"--data_dir={tmp_path / 'data'}",
        f"--output_dir={tmp_path / 'run'}",
        "--train_steps=3",
        "--log_step_count_steps=1",
    ]


def test_it_makes_data_trains_evaluates_and_continues(flags, tmp_path, capsys):
    run(*flags, "--generate_data", "--local_eval_frequency=2", "--keep_checkpoint_max=1")
    out = capsys.readouterr().out
    assert f"{PROBLEM}: vocabulary of 4" in out and "step 3/3 | loss" in out
    for step in (2, 3):
        assert re.search(rf"step {step} \| dev \(.* examples.*; teacher-forced\): loss", out)
    directory = RunDirectory(tmp_path / "run")
    names = [path.name for path in checkpoints.list_checkpoints(directory.path)]
    assert names == ["ckpt-3"]
    config = directory.config
    assert config.hparams.train_steps == 3 and config.problem == PROBLEM
    run(*[flag.replace("steps=3", "steps=4") for flag in flags], "--schedule=train")
    out = capsys.readouterr().out
    assert "Continuing from" in out and "step 4/4" in out and "dev" not in out
    assert len(directory.config.commands) == 2
    (tmp_path / "data").rename(tmp_path / "moved")
    moved = [flag.replace("/data", "/moved").replace("steps=3", "steps=5") for flag in flags]
    run(*moved, "--schedule=train")
    (dev,) = provenance.read(directory.path).data["dev"]  # of the data it is given
    assert dev.startswith(str(tmp_path / "moved"))


@pytest.mark.parametrize(
    "flag, name",
    [
        ("--worker_gpu=0", "--worker_gpu"),
        ("--decode_hparams=beam_size=1", "--decode_hparams"),
        ("--train_steps=0", "train_steps"),
        ("--random_seed=4294967296", "--random_seed"),
        ("--worker_gpu=7000", "--worker_gpu"),
        ("--keep_best=1 --best_metric=acuracy", "'accuracy'"),
        (
            "--eval_early_stopping_steps=2 --eval_early_stopping_metric=bleu",
            "--eval_early_stopping_metric",
        ),
        ("--eval_bleu_sentences=7", "--eval_bleu_sentences"),
        ("--finish", "--finish"),
        ("--max_nonfinite_steps=-1", "max_nonfinite_steps"),
        ("--hparams=freeze=head", "freeze"),
    ],
)
def test_wrong_flags_end_in_one_line(flags, refused, flag, name, tmp_path):
    if "metric=" in flag:  # found once the data are there
        generate_data(Job(registry.get_problem(PROBLEM), tmp_path / "data", tmp_path))
    error = refused(trainer, *flags, *flag.split()).err
    assert error.count("\n") == 1 and name in error
    assert not (tmp_path / "run").exists()


def test_registry_help_lists_everything_and_loads_nothing_heavy():
    code = (
        "import sys; from t2t_repro.bin import trainer\n"
        "trainer.console(['--registry_help'])\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("translate_ende_multi30k", "transformer_base_v1", quickstart.PROBLEM):
        assert f"  {name}\n" in done.stdout


def test_the_embedded_default_runs_through(tmp_path, capsys, monkeypatch):
    """Shrunk; that it learns is for test_experiment and for the command itself."""
    problem = registry.get_problem(quickstart.PROBLEM)
    for name, value in {
        "train_size": 60,
        "dev_size": 6,
        "train_length": 4,
        "dev_length": 4,
    }.items():
        monkeypatch.setattr(type(problem), name, value)
    out = tmp_path / "run"
    settings = f"--hparams={TINY},hidden_size=16,filter_size=8"
    run(f"--output_dir={out}", "--train_steps=2", settings)
    said = capsys.readouterr().out
    assert said.startswith(f"No --problem and no --data_dir: training {quickstart.HPARAMS_SET} on ")
    assert said.count("\nreference ") == said.count("\ndecoded ") == 3  # 6 by strides of 2
    assert "Accuracy per sequence, decoded with beam 4: 0." in said and "of 6 held-out" in said
    assert f"t2t-decoder --output_dir={out} --decode_interactive" in said
    assert RunDirectory(out).config.hparams_set == quickstart.HPARAMS_SET


@pytest.mark.slow
def test_the_run_alone_says_what_to_continue(flags, tmp_path, capsys):
    run(*flags, "--generate_data", "--schedule=train", "--random_seed=5")
    output_dir = f"--output_dir={tmp_path / 'run'}"
    run(output_dir, "--train_steps=4", "--schedule=train")
    out = capsys.readouterr().out
    assert "(step 3)" in out and "step 4/4" in out
    with pytest.raises(SystemExit):
        run(output_dir, "--hparams=hidden_size=32", "--train_steps=5")
    assert "hidden_size" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signal_saves_the_step_and_the_same_command_continues(
    flags, tmp_path, capsys, monkeypatch
):
    step = TrainingLog.step

    def then_a_signal(self, number, *arguments, **more):
        step(self, number, *arguments, **more)
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "step", then_a_signal)
        with pytest.raises(SystemExit) as stopped:
            run(*flags, "--generate_data", "--schedule=train")
    assert stopped.value.code == 143
    path = checkpoints.latest(tmp_path / "run")
    at = checkpoints.step_of(path)
    said = f"stopped by SIGTERM at step {at}, saved as {path}. The same command continues."
    assert said in capsys.readouterr().err and at in (1, 2)
    run(*flags, "--generate_data", "--schedule=train")
    out = capsys.readouterr().out
    assert f"Continuing from {path} (step {at})." in out and "step 3/3" in out


def test_a_signal_while_the_data_are_made(flags, capsys, monkeypatch):
    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(trainer, "generate", interrupted)
    with pytest.raises(SystemExit) as stopped:
        run(*flags, "--generate_data")
    assert stopped.value.code == 130
    error = capsys.readouterr().err
    assert "SIGINT" in error and error.count("\n") == 1


def test_data_are_made_as_by_datagen_on_all_cores(flags, tmp_path, monkeypatch):
    calls = []

    def generate_data(job, machine, **how):
        calls.append((job, machine))
        raise UserError("enough")

    monkeypatch.setattr("t2t_repro.data.generate.generate_data", generate_data)
    monkeypatch.setattr("t2t_repro.process.available_cores", lambda: 7)
    with pytest.raises(SystemExit):
        run(*flags, "--generate_data")
    ((job, machine),) = calls
    assert (job.problem.name, job.data_dir) == (PROBLEM, str(tmp_path / "data"))
    assert machine._processes == 7


def test_a_second_trainer_is_refused(flags, tmp_path, refused):
    generate_data(Job(registry.get_problem(PROBLEM), tmp_path / "data", tmp_path))
    with RunDirectory(tmp_path / "run").locked():
        assert str(tmp_path / "run") in refused(trainer, *flags).err


@pytest.mark.slow
def test_a_batch_size_is_halved_until_it_fits(flags, tmp_path, capsys):
    generate_data(Job(registry.get_problem(PROBLEM), tmp_path / "data", tmp_path))
    run(*flags, "--find_batch_size")
    assert capsys.readouterr().out.splitlines()[-1] == "Give --hparams=batch_size=256"
    assert not (tmp_path / "run").exists()
