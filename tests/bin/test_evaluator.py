import dataclasses
import json
import re

import pytest

from t2t_repro import registry
from t2t_repro.bin import evaluator
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import metrics
from tests.programs import call

PROBLEM = "algorithmic_identity_decimal40"


def test_every_metric_as_a_table_and_as_json(run, capsys):
    call(evaluator, f"--output_dir={run.path}")
    out = capsys.readouterr().out
    result = json.loads((run.path / "eval-dev-7.json").read_text())
    assert set(result["metrics"]) == {"loss", *metrics.METRICS}
    assert result["problem"] == PROBLEM and result["step"] == 7
    for name, value in result["metrics"].items():
        assert f"{name:24}{value:10.4f}" in out
    assert re.search(rf"{PROBLEM}, dev \(all \d+ examples; teacher-forced\), ", out)
    # An untrained model is about as good as a guess among 12 ids.
    assert 2.0 < result["metrics"]["loss"] < 3.5 and result["metrics"]["accuracy_top5"] < 1.0


def test_an_older_checkpoint_and_a_few_batches(run, capsys):
    checkpoint = run.checkpoints_dir / "ckpt-5"
    call(
        evaluator,
        f"--output_dir={run.path}",
        f"--checkpoint_path={checkpoint}",
        "--eval_steps=1",
        "--hparams=num_hidden_layers=1",
    )
    out = capsys.readouterr().out
    assert re.search(r"dev \(\d+ of \d+ examples, 1 of \d+ batches; teacher-forced\)", out)
    assert json.loads((run.path / "eval-dev-5-1-batches.json").read_text())["step"] == 5
    assert not (run.path / "eval-dev-5.json").exists()  # which is of the whole split


def test_data_of_another_vocabulary_is_refused(run, tmp_path):
    config = dataclasses.replace(run.config, problem="text2text_tmpdir")
    vocabulary = tmp_path / registry.get_problem(config.problem).vocab_filename
    vocabulary.write_text("a\nb\n")
    text_run = RunDirectory(tmp_path / "text")
    text_run.begin(config, ["test"], [vocabulary])
    vocabulary.write_text("b\na\n")
    with pytest.raises(UserError, match=vocabulary.name):
        evaluator.evaluate(trained_run(text_run.path, str(tmp_path)), evaluator.EvalRequest())
