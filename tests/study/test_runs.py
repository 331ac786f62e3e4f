"""Runs that are really trained, on four steps of digits; and the report made of them."""

import csv
import dataclasses
import re
import shutil

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.study import compared, report, results, runs
from tests.study.studies import PROBLEM, study_of


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, data_dir))
    return study_of(
        compared.norms("transformer_test", "batch_size=256,num_heads=1"),
        data_dir=data_dir,
        output_dir=tmp_path_factory.mktemp("comparison"),
        depths=(1,),
        warmups=(0,),
        seeds=1,
        train_steps=4,
        evaluations=2,
        bleu_sentences=5,
        flags=("--eval_steps=1", "--yes"),
    )


def in_this_process(command, doing):
    try:
        trainer.console(command[1:])
    except SystemExit as left:
        raise UserError(f"exit code {left.code}") from left


@pytest.fixture(scope="module")
def finished(study):
    """The study, made with programs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs.process, "call", lambda function, *arguments: function(*arguments))
        patch.setattr(runs, "run_program", in_this_process)
        report.comparison(runs.run(study, lambda results: None))
    return study


@pytest.mark.slow  # it trains, and draws every picture
def test_a_run_holds_what_the_report_needs(finished):
    found = results.load(finished).cells
    assert len(found) == 2
    for result, cell in zip(found, finished.cells(), strict=True):
        assert [step for step, _ in result.train] == [1, 2, 3, 4]
        assert [step for step, _ in result.dev] == [2, 4]
        assert list(result.gradients) == list(result.activations) == [0, 2, 4]
        assert len(result.gradients[0]) == 1 + 2 + 3
        assert result.initial_loss == pytest.approx(result.train[0][1], rel=0.2)
        # Digits and the end mark, in a vocabulary of four; each digit half of the time.
        assert np.log(2) < result.unigram_loss < np.log(4)
        assert result.dev_loss == pytest.approx(result.dev[-1][1], rel=0.2)
        assert len(result.hypotheses) == len(result.references) == 5
        assert 0 < result.accuracy < 1 and result.parameters > 1000
        checkpoints = finished.run_of(cell).checkpoints_dir.iterdir()
        assert [path.name for path in checkpoints] == ["ckpt-4"]


@pytest.mark.slow  # it trains, and draws every picture
def test_finished_runs_are_not_made_again(finished, tmp_path, monkeypatch):
    shutil.copytree(finished.output_dir, tmp_path, dirs_exist_ok=True)
    page = (tmp_path / "report.md").read_text()
    commands = []

    def program(command, doing):
        commands.append(command)
        raise UserError("no data")

    monkeypatch.setattr(runs, "run_program", program)
    study = dataclasses.replace(finished, output_dir=tmp_path)
    report.comparison(runs.run(study, lambda results: None))
    assert (tmp_path / "report.md").read_text() == page and not commands
    with pytest.raises(UserError, match="bleu_sentences"):
        runs.run(dataclasses.replace(study, bleu_sentences=4), lambda results: None)
    more = dataclasses.replace(study, seeds=2, flags=("--t2t_usr_dir=/mine",))
    for _ in range(2):  # a training that was refused binds to nothing
        with pytest.raises(UserError, match="no data"):  # which all would say
            runs.run(more, lambda results: None)
    assert len(commands) == 2
    assert "--random_seed=1" in commands[0] and "--t2t_usr_dir=/mine" in commands[0]


@pytest.mark.slow  # it trains, and draws every picture
def test_the_report_has_everything_in_one_page(finished):
    folder = finished.output_dir
    page, markdown = ((folder / f"report.{end}").read_text() for end in ("html", "md"))
    names = [path.name for path in folder.glob("*.png")]
    kinds = ("activations", "dev-loss", "gradients", "training-loss")
    assert sorted(names) == [f"{kind}.png" for kind in kinds]
    assert all(f"({name})" in markdown for name in names)
    assert page.count("data:image/png;base64,") == len(names)
    assert page.index('alt="dev-loss.png"') < page.index("<table>")
    assert markdown.index("dev-loss.png") < markdown.index("| --")

    assert not re.search(r"""(src|href)=(?!"data:)|url\(""", page)
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert [row["name"] for row in rows] == ["post-norm", "pre-norm"]
    for row, result in zip(rows, results.load(finished).cells, strict=True):
        assert float(row["dev_loss"]) == pytest.approx(result.dev_loss, rel=1e-5)
        assert f"| {result.dev_loss:.3f} |" in markdown


def test_a_run_that_is_not_finite_is_a_result(study, tmp_path, monkeypatch):
    ended = []
    study = dataclasses.replace(study, output_dir=tmp_path)

    def program(command, doing):
        run = study.run_of(study.cells()[len(ended)])
        (run.path / "nonfinite").mkdir(parents=True)
        run.append_metrics({"kind": "train", "step": 1, "loss": 1.5})
        (run.path / "nonfinite" / "batch-3.json").write_text('{"step": 3}')
        raise UserError("not finite")

    def measure(function, path, bleu_sentences, whole):
        ended.append(whole)
        places = {f"{stack}/layer_0/ffn": 0.5 for stack in ("encoder", "decoder")}
        values = {"parameters": 9, "initial_loss": 1.5, "gradients": {"0": places}}
        nothing = ("unigram_loss", "dev_loss", "accuracy", "hypotheses", "references")
        return values | dict.fromkeys(nothing) | {"activations": {}}

    monkeypatch.setattr(runs.process, "call", measure)
    monkeypatch.setattr(runs, "run_program", program)
    reported = []
    found = runs.run(study, reported.append)
    report.comparison(found)
    assert [len(each.cells) for each in reported] == [1, 2]
    assert ended == [False, False]
    for result in found.cells:
        assert (result.status, result.stopped_at) == ("not finite", 3)
