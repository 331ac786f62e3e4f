"""Cells that are really trained, on four steps of digits; and the report made of them."""

import csv
import dataclasses
import html.parser
import shutil

import numpy as np
import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import trainer as trainer_program
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.study import pictures, results, runs
from t2t_repro.study.variants import Grid, Request, of_sequences

PROBLEM = "algorithmic_reverse_binary40_test"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, data_dir))
    return Grid(
        problem=PROBLEM,
        data_dir=str(data_dir),
        variants=of_sequences("transformer_test", "none/dan,n/da"),
        hparams="batch_size=256,num_heads=1,learning_rate_constant=0.5",
        depths=(1,),
        warmups=(0,),
        seeds=1,
        train_steps=4,
        evaluations=2,
        eval_steps=1,
        bleu_sentences=5,
    )


def in_this_process(command, doing):
    try:
        cli.run(
            "t2t-trainer",
            trainer_program.__doc__,
            trainer_program.define_flags,
            trainer_program.main,
            command[1:],
        )
    except SystemExit as left:
        raise UserError(f"exit code {left.code}") from left


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    """The folder of a comparison, made with programs in this process."""
    patch = pytest.MonkeyPatch()
    patch.setattr(runs.process, "call", lambda function, *arguments: function(*arguments))
    output_dir = tmp_path_factory.mktemp("comparison")
    runs.run(Request(plan, output_dir), in_this_process)
    patch.undo()
    return output_dir


def test_a_cell_holds_what_the_report_needs(plan, finished):
    for cell in plan.cells():
        result = results.load_cell(finished, plan, cell)
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
        run = results.run_of(finished, plan, cell)
        assert [path.name for path in run.checkpoints_dir.iterdir()] == ["ckpt-4"]


def test_finished_cells_are_not_made_again(plan, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    page = (tmp_path / "report.md").read_text()
    runs.run(Request(plan, tmp_path), lambda command, doing: pytest.fail(doing))
    assert (tmp_path / "report.md").read_text() == page
    other = dataclasses.replace(plan, train_steps=5)
    with pytest.raises(UserError, match="train_steps"):
        runs.run(Request(other, tmp_path), in_this_process)
    made = []

    def program(command, doing):
        made.append(command)
        raise UserError("no data")

    more = dataclasses.replace(plan, seeds=2, depths=(1, 2))
    with pytest.raises(UserError, match="no data"):
        runs.run(Request(more, tmp_path, worker_gpu=None, usr_dir="/mine"), program)
    (command,) = made
    assert "--random_seed=1" in command and "--t2t_usr_dir=/mine" in command


def test_the_report_has_everything_in_one_page(plan, finished):
    page, markdown = ((finished / f"report.{end}").read_text() for end in ("html", "md"))
    names = [path.name for path in finished.glob("*.png")]
    assert sorted(names) == [  # with one warm-up there is nothing against warm-ups
        *("activations.png", "dev-loss.png", "gradients.png", "training-loss.png")
    ]
    assert all(f"({name})" in markdown for name in names)
    assert page.count("data:image/png;base64,") == len(names)
    assert page.index('alt="dev-loss.png"') < page.index("Early look") < page.index("<table>")
    assert markdown.index("dev-loss.png") < markdown.index("Early look") < markdown.index("| --")

    class Links(html.parser.HTMLParser):
        found: list = []

        def handle_starttag(self, tag, attrs):
            self.found += [
                v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")
            ]

    Links().feed(page)
    assert Links.found == []
    rows = list(csv.DictReader((finished / "results.csv").open()))
    assert [row["variant"] for row in rows] == ["post-norm", "pre-norm"]
    for row, result in zip(rows, results.load(plan, finished).by_cell.values(), strict=True):
        assert float(row["dev_loss"]) == pytest.approx(result.dev_loss, rel=1e-5)
        assert f"| {result.dev_loss:.3f} |" in markdown
    for name, lines in (("curves.csv", 2 * (4 + 2)), ("norms.csv", 2 * 3 * (6 + 5))):
        assert len(list(csv.DictReader((finished / name).open()))) == lines


def test_a_run_that_is_not_finite_is_a_result(plan, tmp_path, monkeypatch):
    ended = []

    def program(command, doing):
        run = results.run_of(tmp_path, plan, plan.cells()[len(ended)])
        (run.path / "nonfinite").mkdir(parents=True)
        run.append_metrics({"kind": "train", "step": 1, "loss": 1.5})
        (run.path / "nonfinite" / "batch-3.json").write_text('{"step": 3}')
        raise UserError("not finite")

    def measure(function, grid, path, usr_dir, whole):
        ended.append(whole)
        places = {f"{stack}/layer_0/ffn": 0.5 for stack in ("encoder", "decoder")}
        values = {"parameters": 9, "initial_loss": 1.5, "gradients": {"0": places}}
        nothing = ("unigram_loss", "dev_loss", "accuracy", "hypotheses", "references")
        return values | dict.fromkeys(nothing) | {"activations": {}}

    monkeypatch.setattr(runs.process, "call", measure)
    runs.run(Request(plan, tmp_path), program)
    assert ended == [False, False]
    for result in results.load(plan, tmp_path).by_cell.values():
        assert (result.status, result.stopped_at) == ("not finite", 3)
    assert "Early look" in (tmp_path / "report.md").read_text()


def test_a_moving_mean():
    curve = [(i, float(i % 2)) for i in range(100)]
    assert pictures.smoothed(curve)[50] == (50, pytest.approx(0.4))  # of 0 1 0 1 0
    assert pictures.smoothed(curve[:5]) == curve[:5]
