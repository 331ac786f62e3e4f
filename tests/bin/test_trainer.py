import os
import signal

import pytest

from t2t_repro import registry
from t2t_repro.bin import quickstart, trainer
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
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


def test_registry_help_lists_everything(capsys):
    run("--registry_help")
    said = capsys.readouterr().out
    for name in ("translate_ende_multi30k", "transformer_base_v1", quickstart.PROBLEM):
        assert f"  {name}\n" in said


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
    said = f"stopped by SIGTERM at step {at}, saved as {path}. Run the same command to resume."
    assert said in capsys.readouterr().err and at in (1, 2)
    run(*flags, "--generate_data", "--schedule=train")
    out = capsys.readouterr().out
    assert f"{path} (step {at})" in out and "step 3/3" in out


@pytest.mark.slow
def test_a_batch_size_is_halved_until_it_fits(flags, tmp_path, capsys):
    generate_data(Job(registry.get_problem(PROBLEM), tmp_path / "data", tmp_path))
    run(*flags, "--find_batch_size")
    assert capsys.readouterr().out.splitlines()[-1] == "Give --hparams=batch_size=256"
    assert not (tmp_path / "run").exists()
