"""Cells that are really trained, on four steps of digits; and the report made of them."""

import csv
import dataclasses
import html
import html.parser
import json
import shutil

import numpy as np
import pytest

from t2t_repro import files, registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.studies.compare import cell as comparison_cell
from t2t_repro.studies.compare import cell_result, grid
from t2t_repro.studies.compare import pictures as comparison_pictures
from t2t_repro.studies.compare import report as comparison_report
from t2t_repro.studies.compare import results as comparison_results
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.variants import of_sequences
from t2t_repro.training import checkpoints, devices, distribution, trainer
from t2t_repro.views import pictures

PROBLEM = "algorithmic_reverse_binary40_test"
POST, PRE = "none/dan", "n/da"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    generate_data(Job(registry.get_problem(PROBLEM), data_dir, data_dir))
    return Grid(
        problem=PROBLEM,
        data_dir=str(data_dir),
        variants=of_sequences("transformer_test", f"{POST},{PRE}"),
        hparams="batch_size=256,num_heads=1,learning_rate_constant=0.5",
        depths=(1,),
        warmups=(0,),
        seeds=1,
        train_steps=4,
        evaluations=2,
        eval_steps=1,
    )


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    """The folder of a comparison whose first cell has ended; the second holds the same numbers."""
    output_dir = tmp_path_factory.mktemp("comparison")
    post, pre = plan.cells()
    comparison_cell.run(plan, post, output_dir, ["t2t-compare", "--seeds=1"])
    copy(plan, output_dir, post, pre)
    return output_dir


def copy(plan, output_dir, source, target):
    folder = grid.run_of(output_dir, plan, target).path
    shutil.copytree(grid.run_of(output_dir, plan, source).path, folder)
    file = folder / grid.RESULT_FILE
    values = json.loads(file.read_text()) | {"cell": dataclasses.asdict(target)}
    file.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("saved", "measured"),
    [((2, 3, 60, 120), (0, 60, 120)), ((2, 3), (0, 3)), ((60,), (0, 60)), ((), (0,))],
)
def test_a_checkpoint_that_a_signal_has_saved_is_not_measured(tmp_path, saved, measured):
    run = RunDirectory(tmp_path)
    for step in saved:
        checkpoints.write(run.checkpoints_dir, {}, checkpoints.State(step=step))
    assert tuple(step for step, _ in comparison_cell._points(run, 60)) == measured


def test_a_cell_is_a_run_directory_with_its_last_checkpoint(plan, finished):
    run = grid.run_of(finished, plan, plan.cells()[0])
    assert [path.name for path in checkpoints.list_checkpoints(run.path)] == ["ckpt-4"]
    config = run.config()
    assert config.commands[0].endswith("t2t-compare --seeds=1")
    assert config.hparams == plan.hparams_of(plan.cells()[0])


def test_another_that_runs_the_same_cell_is_waited_for(plan, finished, tmp_path, monkeypatch):
    """Both were begun at once; the other has trained, measured and deleted meanwhile."""
    cell = plan.cells()[0]

    def after_the_other(folders, say):
        (folder,) = folders
        shutil.copytree(grid.run_of(finished, plan, cell).path, folder, dirs_exist_ok=True)
        return files.locked(folders, say)

    monkeypatch.setattr(comparison_cell, "locked", after_the_other)
    monkeypatch.setattr(comparison_cell.experiment, "run", None)
    comparison_cell.run(plan, cell, tmp_path, [])
    for output_dir in (finished, tmp_path):
        assert (grid.run_of(output_dir, plan, cell).path / grid.RESULT_FILE).exists()


def test_a_result_stands_when_checkpoints_have_been_deleted(plan, tmp_path, monkeypatch):
    cell = plan.cells()[0]
    run = grid.run_of(tmp_path, plan, cell)

    def killed(path):
        raise KeyboardInterrupt

    def measured(*_):
        for step in (2, 4):
            checkpoints.write(run.checkpoints_dir, {}, checkpoints.State(step=step))
        return {"parameters": 9}

    monkeypatch.setattr(comparison_cell.experiment, "run", lambda request: None)
    monkeypatch.setattr(comparison_cell, "_measure", measured)
    monkeypatch.setattr(checkpoints, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        comparison_cell.run(plan, cell, tmp_path, [])
    assert not (run.path / grid.RESULT_FILE).exists()
    monkeypatch.undo()
    comparison_cell.run(plan, cell, tmp_path, [])
    assert [path.name for path in checkpoints.list_checkpoints(run.path)] == ["ckpt-4"]
    assert json.loads((run.path / grid.RESULT_FILE).read_text())["parameters"] == 9


def test_both_sequences_get_the_same_batches_in_the_same_order(plan):
    problem, found = registry.get_problem(PROBLEM), []
    for sequences, seed in ((POST, 0), (PRE, 0), (PRE, 1)):
        config = RunConfig(
            hparams_set="transformer_test",
            hparams=plan.hparams_of(Cell(1, 0, sequences, seed)),
            problem=PROBLEM,
            data_dir=plan.data_dir,
            version="0",
            random_seed=seed,
        )
        found.append(comparison_cell._first_batches(config, problem, 50))  # more than an epoch
    post, pre, other = map(comparison_cell._fingerprint, found)
    assert post == pre != other
    assert comparison_cell._fingerprint(found[0][::-1]) != post


def test_what_was_measured(plan, finished):
    result = cell_result.load(finished, plan, plan.cells()[0])
    assert [step for step, _ in result.train] == [1, 2, 3, 4]
    assert [step for step, _ in result.dev] == [2, 4]
    assert list(result.gradients) == list(result.activations) == [0, 2, 4]
    assert len(result.gradients[0]) == 1 + 2 + 3
    assert result.initial_loss == pytest.approx(result.train[0][1], rel=0.2)
    # Digits and the end mark, in a vocabulary of four; each digit half of the time.
    assert np.log(2) < result.unigram_loss < np.log(4)
    assert result.dev_loss == pytest.approx(result.dev[-1][1], rel=0.2)
    assert len(result.sentences["loss"]) == len(result.sentences["tokens"]) > 20
    assert result.hypotheses is None and result.parameters > 1000


def test_the_report_has_everything_in_one_page(plan, finished):
    report = comparison_report.write(plan, finished, "t2t-compare --seeds=1")
    page = report.html.read_text()
    markdown = report.markdown.read_text()
    for text in (*report.summary, "t2t-compare --seeds=1", "transformer_base_v1 (post-norm)"):
        assert html.escape(text) in page and text in markdown
    names = [path.name for path in finished.glob("*.png")]
    assert len(names) == 7  # with one depth there is nothing against depth
    assert all((finished / name).stat().st_size < pictures.LIMIT for name in names)
    assert all(f"({name})" in markdown for name in names)
    assert page.count("data:image/png;base64,") == len(names)

    class Links(html.parser.HTMLParser):
        found: list = []

        def handle_starttag(self, tag, attrs):
            self.found += [
                v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")
            ]

    Links().feed(page)
    assert Links.found == []
    rows = list(csv.DictReader(report.results.open()))
    assert [row["variant"] for row in rows] == [POST, PRE]
    results = comparison_results.load(plan, finished)
    for row, result in zip(rows, results.by_cell.values(), strict=True):
        assert float(row["dev_loss"]) == pytest.approx(result.dev_loss, rel=1e-5)
        assert row["bleu"] == row["diverged_at"] == ""
        assert f"| {result.dev_loss:.3f} |" in markdown
    for name, lines in (("curves.csv", 2 * (4 + 2)), ("norms.csv", 2 * 3 * (6 + 5))):
        assert len(list(csv.DictReader((finished / name).open()))) == lines
    (pair,) = csv.DictReader((finished / "comparisons.csv").open())
    assert (pair["first"], pair["second"], pair["loss"]) == (POST, PRE, "0")
    assert report.summary[0].startswith(
        "Which of post-norm (none/dan, warm-up 0) and pre-norm (n/da, warm-up 0) at depth 1 is "
        "better after a whole "
        "training cannot be said here: "
    )
    assert "the numbers support no difference" in report.summary[1]


def test_a_run_that_is_not_finite_is_a_result(plan, tmp_path, monkeypatch):
    def fails_at_the_fourth(model, *_):
        losses = iter([1.5, 1.4, 1.3])

        def step(batch, observe=None):
            if (loss := next(losses, None)) is None:
                raise distribution.NotFinite(float("nan"))
            if observe is not None:
                observe(np.ones(len(model.trainable_variables)))
            return loss

        return step

    monkeypatch.setattr(distribution, "step_function", fails_at_the_fourth)
    cell = Cell(1, 0, POST, 0)
    comparison_cell.run(plan, cell, tmp_path, ["t2t-compare"], usr_dir="/mine")
    assert grid.run_of(tmp_path, plan, cell).config().t2t_usr_dir == "/mine"
    result = cell_result.load(tmp_path, plan, cell)
    assert (result.status, result.diverged_at) == ("not finite", 4)
    assert result.sentences is None
    assert list(result.gradients) == list(result.activations) == [0]  # the next was the fourth
    results = {cell: result}
    said = comparison_results.Results(plan, results).summary()
    assert said[1].startswith(
        "Diverged: 1 of 1 cells of post-norm (none/dan) (depth 1 with warm-up 0), 0 of 0"
    )


def test_other_errors_of_a_run_are_errors(plan, tmp_path):
    cell = Cell(1, 0, POST, 0)
    run = grid.run_of(tmp_path, plan, cell)
    run.path.mkdir(parents=True)
    (run.path / "run.json").write_text(json.dumps({"problem": PROBLEM}))
    with pytest.raises(UserError, match="hparams_set"):
        comparison_cell.run(plan, cell, tmp_path, ["t2t-compare"])
    assert not (run.path / grid.RESULT_FILE).exists()


def test_damaged_checkpoints_get_the_advice_of_this_program(plan, tmp_path, monkeypatch):
    def train(request):
        raise trainer.NoWholeCheckpoint("Give --restart_damaged_run.")

    monkeypatch.setattr(comparison_cell.experiment, "run", train)
    folder = grid.run_of(tmp_path, plan, Cell(1, 0, POST, 0)).path
    with pytest.raises(UserError, match=f"Remove {folder}, and give the same command again"):
        comparison_cell.run(plan, Cell(1, 0, POST, 0), tmp_path, ["t2t-compare"])


def test_a_cell_trains_on_the_devices_that_are_asked_for(plan, tmp_path, monkeypatch):
    asked = []

    def choose(worker_gpu):  # once for the cell's own record, and where it trains
        asked.append(worker_gpu)
        if len(asked) == 2:
            raise UserError(f"{worker_gpu} are too many")
        return devices.ONE

    monkeypatch.setattr(devices, "choose", choose)
    cell = plan.cells()[0]
    with pytest.raises(UserError, match="7"):
        comparison_cell.run(plan, cell, tmp_path, ["t2t-compare"], worker_gpu=7)
    assert not grid.run_of(tmp_path, plan, cell).exists()  # nothing was trained before


def test_cells_of_another_number_of_devices_are_not_mixed(plan, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    post, pre = plan.cells()
    assert cell_result.load(tmp_path, plan, post).replicas == 1
    file = grid.run_of(tmp_path, plan, pre).path / grid.RESULT_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"replicas": 8}))
    message = "Expected 8 devices, on which the cell depth 1, .* n/da, seed 0 was .* Received: 1."
    with pytest.raises(UserError, match=message):
        comparison_cell.run(plan, post, tmp_path, ["t2t-compare"])
    with pytest.raises(UserError, match="1"):
        comparison_results.load(plan, tmp_path)


def test_a_moving_mean_and_the_values_of_the_seeds():
    curve = [(i, float(i % 2)) for i in range(100)]
    assert comparison_pictures.smoothed(curve)[50] == (50, pytest.approx(0.4))  # of 0 1 0 1 0
    assert comparison_pictures.smoothed(curve[:5]) == curve[:5]
    of_each = comparison_pictures.by_step([[(3, 4.0), (1, 2.0)], [(1, 6.0)]])
    assert list(of_each.items()) == [(1, [2.0, 6.0]), (3, [4.0])]
