import re
import subprocess
import sys

import pytest

from t2t_repro import cli, quickstart, registry, trainer
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints

TINY = "num_hidden_layers=1,batch_size=256"
PROBLEM = "algorithmic_reverse_binary40_test"


def run(*argv):
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, list(argv))


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
    assert "step 2 | dev: loss" in out and "step 3 | dev: loss" in out
    directory = RunDirectory(tmp_path / "run")
    names = [path.name for path in checkpoints.list_checkpoints(directory.path)]
    assert names == ["ckpt-3"]
    config = directory.config()
    assert config.hparams.train_steps == 3 and config.problem == PROBLEM
    run(*[flag.replace("steps=3", "steps=4") for flag in flags], "--schedule=train")
    out = capsys.readouterr().out
    assert "Continuing from" in out and "step 4/4" in out and "dev" not in out
    assert len(directory.config().commands) == 2


@pytest.mark.parametrize("missing", ["problem", "hparams_set", "data_dir", "output_dir"])
def test_what_is_missing_is_named(flags, capsys, missing):
    with pytest.raises(SystemExit) as stopped:
        run(*[flag for flag in flags if not flag.startswith(f"--{missing}=")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"t2t-trainer: error: Expected --{missing}. Received: none. ")


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--schedule=trian", "Unknown schedule. Received: 'trian'. Did you mean 'train'"),
        ("--hparams_set=transformer_bas", "Did you mean 'transformer_base'"),
        ("--hparams=hiden_size=3", "Unknown hparam. Received: 'hiden_size'.*'hidden_size'"),
        ("--problem=algorithmic_revers", "Unknown problem"),
        ("--train_steps=0", "train_steps"),
        ("--random_seed=4294967296", "random_seed=4294967296: 4294967296 is not an integer in"),
        ("--data_dir=/nothing", "t2t-datagen --problem="),
        ("--worker_gpu=7", "--worker_gpu between 1 and"),
        ("--evalsteps=3", "Unknown flag. Received: '--evalsteps'. Did you mean 'eval_steps'"),
    ],
)
def test_wrong_flags_end_in_one_line(flags, capsys, flag, message, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        run(*flags, flag)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1
    assert re.search(message, error), error
    assert not (tmp_path / "run").exists()


def test_registry_help_lists_everything_and_loads_nothing_heavy():
    code = (
        "import sys; from t2t_repro import cli, trainer\n"
        "cli.run('t', '', trainer.define_flags, trainer.main, ['--registry_help'])\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("translate_ende_multi30k", "transformer_base_v1", quickstart.PROBLEM):
        assert f"  {name}\n" in done.stdout


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as stopped:
        run("--help")
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "--local_eval_frequency=" in out and "Save and evaluate every this many steps." in out
    assert "--[no]generate_data" in out and out.startswith("t2t-trainer: trains and evaluates")


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
    assert RunDirectory(out).config().hparams_set == quickstart.HPARAMS_SET


def test_the_run_alone_says_what_to_continue(flags, tmp_path, capsys):
    run(*flags, "--generate_data", "--schedule=train", "--random_seed=5")
    output_dir = f"--output_dir={tmp_path / 'run'}"
    run(output_dir, "--train_steps=4", "--schedule=train")
    out = capsys.readouterr().out
    assert "(step 3)" in out and "step 4/4" in out
    with pytest.raises(SystemExit):
        run(output_dir, "--hparams=hidden_size=32", "--train_steps=5")
    assert "hidden_size was 16, now 32" in capsys.readouterr().err
