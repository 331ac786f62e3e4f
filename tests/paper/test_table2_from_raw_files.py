"""Each row of table 2 from small archives of the real shape to the tables, with all programs."""

import importlib
import json

import pytest

from t2t_repro import cli
from t2t_repro.paper import reproduce, scaled
from tests.problems import wmt14_archives

pytestmark = pytest.mark.slow

TINY = "hidden_size=16,filter_size=24,num_heads=2,num_hidden_layers=1"
UPDATES = {"base": 6, "big": 21}  # as many checkpoints as are averaged, and one more
TESTS = {
    "ende": ("newstest2013.en", "newstest2014-deen-ref.en.sgm"),
    "enfr": ("newstest2013.en", "newstest2014-fren-ref.en.sgm"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The raw files and the data, which the rows share."""
    folder = tmp_path_factory.mktemp("wmt14")
    (folder / "tmp_dir").mkdir()
    wmt14_archives.write(folder / "tmp_dir", times=30)
    return folder


@pytest.fixture
def place(folders, tmp_path):
    of_data = {name: str(folders / name) for name in ("data_dir", "tmp_dir")}
    return of_data | {"output_dir": str(tmp_path / "output_dir")}


def call(name, *argv):
    module = {"t2t-eval": "evaluator"}.get(name, name.removeprefix("t2t-").replace("-", "_"))
    program = importlib.import_module(f"t2t_repro.bin.{module}")
    positional = "action" if name == "t2t-paper" else None
    run = (program.define_flags, program.main, list(argv))
    cli.run(name, program.__doc__, *run, positional=positional)


def in_this_process(command, doing):
    call(*command)


@pytest.mark.parametrize("name", reproduce.TABLE2)
def test_a_row(place, tmp_path, name):
    model = "big" if "_big" in name else "base"
    small = {"hparams": TINY, "train_steps": UPDATES[model]}
    request = reproduce.Request(rows=name, **place | small)
    recipe = reproduce.table2(name, request)
    run = reproduce.carry_out(recipe, request, in_this_process)
    plan = json.loads((run.path / "plan.json").read_text())
    assert plan["problem"] == recipe.problem and plan["batch"]["accumulated"] > 1
    assert plan["vocabulary"][0] < 1200  # what was made, not the 37,000 that the lines lack
    mean = (plan["batch"]["source_tokens"] + plan["batch"]["target_tokens"]) / 2
    assert mean == pytest.approx(25_000, rel=0.03)
    for split, file in zip(("dev", "test"), TESTS[name[:4]], strict=True):
        expected = [line for line in wmt14_archives.lines(f"dev/{file}") if line]
        source = run.path / "decoded" / f"{split}.source"
        assert len(source.read_text().splitlines()) == len(expected)
    reproduce.carry_out(recipe, request, lambda command, doing: pytest.fail(doing))
    call(
        "t2t-paper",
        "tables",
        "--tables=2,3",
        f"--runs={run.path}",
        f"--output_dir={tmp_path / 'paper'}",
    )
    values = json.loads((tmp_path / "paper" / "paper.json").read_text())
    (row,) = values["3-runs"]["rows"]
    assert 1 < row["PPL"] < 10_000 and row["parameters"] < 1
    (row,) = values["2-runs-cost"]["rows"]
    assert row["hours"] > 0 and row["FLOP by time"] > 0 and row["devices"] == 1
    (row,) = values["2-runs"]["rows"]
    steps = UPDATES[model] * plan["batch"]["accumulated"]
    assert (row["run"], row["problem"], row["step"]) == (str(run.path), recipe.problem, steps)
    score = json.loads((run.path / "bleu.json").read_text())
    assert row["sacreBLEU"] == score["sacrebleu"]["score"] >= 0
    assert row["compounds split"] == score["compound_split"]["score"]


def test_table_3_made_smaller(place):
    scale = {"scale": 16, "train_steps": 20, "warmup_steps": 9, "batch": 300, "seeds": 1}
    problem = reproduce.TABLE2["ende_base"][0]
    request = reproduce.Request(table=3, rows="base,a_h1", problem=problem, **place | scale)
    path, page = scaled.run(request, in_this_process)
    rows = json.loads(path.read_text())["3-scaled"]["rows"]
    assert [(row["row"], row["seeds"]) for row in rows] == [("base", 1), ("a_h1", 1)]
    assert all(1 < row["PPL"] < 10_000 and row["BLEU"] >= 0 for row in rows)
    assert "| (A) one head is worse than eight | BLEU | +0.90 |" in page.read_text()
