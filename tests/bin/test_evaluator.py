import dataclasses
import json
import re
import shutil

import pytest

from t2t_repro import registry
from t2t_repro.bin import evaluator
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints, metrics
from tests import untrained
from tests.programs import call

PROBLEM = "algorithmic_reverse_binary40_test"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory with two checkpoints of untrained models."""
    run, model = untrained.run_on(tmp_path_factory.mktemp("run"), PROBLEM)
    for step in (3, 5):
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
    return run


def test_every_metric_as_a_table_and_as_json(trained, capsys):
    call(evaluator, f"--output_dir={trained.path}")
    out = capsys.readouterr().out
    result = json.loads((trained.path / "eval-dev-5.json").read_text())
    assert set(result["metrics"]) == {"loss", *metrics.METRICS}
    assert result["problem"] == PROBLEM and result["step"] == 5
    for name, value in result["metrics"].items():
        assert f"{name:24}{value:10.4f}" in out
    assert re.search(rf"{PROBLEM}, dev \(all \d+ examples; teacher-forced\), ", out)
    # An untrained model is worse than a guess among the four ids of equal probability.
    assert result["metrics"]["loss"] > 1.0 and result["metrics"]["accuracy_top5"] == 1.0


def test_an_older_checkpoint_and_a_few_batches(trained, capsys):
    checkpoint = trained.checkpoints_dir / "ckpt-3"
    call(
        evaluator,
        f"--output_dir={trained.path}",
        f"--checkpoint_path={checkpoint}",
        "--eval_steps=1",
        "--hparams=num_hidden_layers=1",
    )
    out = capsys.readouterr().out
    assert re.search(r"dev \(\d+ of \d+ examples, 1 of \d+ batches; teacher-forced\)", out)
    assert json.loads((trained.path / "eval-dev-3-1-batches.json").read_text())["step"] == 3
    assert not (trained.path / "eval-dev-3.json").exists()  # which is of the whole split


def test_a_checkpoint_of_another_run_has_a_result_of_its_own(trained, tmp_path):
    (trained.path / "eval-dev-5.json").unlink(missing_ok=True)
    flag = f"--output_dir={trained.path}"
    for place in (trained.path / "avg", tmp_path / "other", tmp_path / "else" / "other"):
        other = RunDirectory(place)
        shutil.copytree(trained.checkpoints_dir, other.checkpoints_dir)
        call(
            evaluator,
            flag,
            f"--checkpoint_path={other.checkpoints_dir / 'ckpt-5'}",
        )
    shutil.copytree(trained.checkpoints_dir, tmp_path / "flat")
    call(
        evaluator,
        flag,
        f"--checkpoint_path={tmp_path / 'flat' / 'ckpt-5'}",
    )
    names = sorted(path.name for path in trained.path.glob("eval-dev-5*.json"))
    kinds = [re.sub(r"-[0-9a-f]{6}\.json", "", name) for name in names]
    assert kinds == ["eval-dev-5-avg.json", "eval-dev-5-flat", *["eval-dev-5-other"] * 2]
    shutil.rmtree(trained.path / "avg")


@pytest.mark.parametrize(
    "flags, name",
    [
        ([], "--output_dir"),
        (["RUN", "--problem=x"], f"--problem={PROBLEM}"),
        (["RUN", "--hparams_set=x"], "--hparams_set=transformer_test"),
        (["RUN", "--hparams=hidden_size=4"], "hidden_size=4"),
        (["RUN", "--eval_use_test_set"], "'test'"),
        (["RUN", "--checkpoint_path=/nothing"], "/nothing"),
        (["RUN", "--checkpoint_path="], "--checkpoint_path"),
        (["RUN", "--data_dir=/nothing"], "t2t-datagen"),
    ],
)
def test_errors_in_one_line(trained, refused, flags, name):
    of = [flag.replace("RUN", f"--output_dir={trained.path}") for flag in flags]
    error = refused(evaluator, *of).err
    assert error.count("\n") == 1 and name in error


def test_data_of_another_vocabulary_is_refused(trained, tmp_path):
    config = dataclasses.replace(trained.config, problem="text2text_tmpdir")
    vocabulary = tmp_path / registry.get_problem(config.problem).vocab_filename
    vocabulary.write_text("a\nb\n")
    text_run = RunDirectory(tmp_path / "run")
    text_run.begin(config, ["test"], [vocabulary])
    vocabulary.write_text("b\na\n")
    with pytest.raises(UserError, match=vocabulary.name):
        evaluator.evaluate(trained_run(text_run.path, str(tmp_path)), evaluator.EvalRequest())
