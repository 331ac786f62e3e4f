"""Each row of table 2 from small archives of the real shape to the tables, with all programs.

All settings in a run's files are the paper's, but for those that make it small.
"""

import importlib
import json

import pytest

from t2t_repro import cli
from t2t_repro.studies.paper import recipes, reproduce, scaled, settings
from t2t_repro.studies.paper.reproduce import Place
from tests.problems import wmt14_archives

pytestmark = pytest.mark.slow

TINY = "hidden_size=16,filter_size=24,num_heads=2,num_hidden_layers=1"
SMALL = {"layers": 1, "d_model": 16, "d_ff": 24, "heads": 2}
UPDATES = {"base": 6, "big": 21}  # as many checkpoints as are averaged, and one more
ROWS = {  # with what a row has that the paper's settings have not
    "ende_base": {},
    "ende_big": {},
    "ende_base_bpe": {},
    "ende_big_bpe": {},
    "enfr_base": {},
    "enfr_big": {"residual dropout": 0.1},  # the paper's too: section 6.1
    "enfr_big_separate": {"residual dropout": 0.1, "one table of embeddings": False},
    "enfr_big_attention_dropout": {"residual dropout": 0.1, "attention dropout": 0.1},
}
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
    return Place(**of_data, output_dir=str(tmp_path / "output_dir"))


def call(name, *argv):
    module = {"t2t-eval": "evaluator"}.get(name, name.removeprefix("t2t-").replace("-", "_"))
    program = importlib.import_module(f"t2t_repro.bin.{module}")
    cli.run(name, program.__doc__, program.define_flags, program.main, list(argv))


def in_this_process(command, doing):
    call(*command)


def test_these_are_all_rows():
    assert ROWS.keys() == recipes.TABLE2.keys()


@pytest.mark.parametrize("name", ROWS)
def test_a_row(place, tmp_path, name):
    recipe, model = recipes.table2(name), "big" if "_big" in name else "base"
    small = Place(**{**vars(place), "hparams": TINY, "train_steps": UPDATES[model]})
    run = reproduce.carry_out(recipe, small, lambda line: None, in_this_process)
    found = settings.of_run(run)
    wanted = {each.name: getattr(each, model) for each in settings.SETTINGS}
    different = {n: value for n, value in found.items() if value != wanted.get(n)}
    assert different == SMALL | {"updates": UPDATES[model]} | ROWS[name]
    plan = json.loads((run.path / "plan.json").read_text())
    assert plan["problem"] == recipe.problem and plan["batch"]["accumulated"] > 1
    assert plan["vocabulary"][0] < 1200  # what was made, not the 37,000 that the lines lack
    mean = (plan["batch"]["source_tokens"] + plan["batch"]["target_tokens"]) / 2
    assert mean == pytest.approx(25_000, rel=0.03)
    for split, file in zip(("dev", "test"), TESTS[name[:4]], strict=True):
        expected = [line for line in wmt14_archives.lines(f"dev/{file}") if line]
        source = run.path / "decoded" / f"{split}.source"
        assert len(source.read_text().splitlines()) == len(expected)
    reproduce.carry_out(recipe, small, lambda line: None, lambda command, doing: pytest.fail(doing))
    call("t2t-paper", "--tables=2,3", f"--runs={run.path}", f"--output_dir={tmp_path / 'paper'}")
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
    scale = recipes.Scale(width=16, train_steps=20, warmup_steps=9, batch=300)
    problem = recipes.table2("ende_base").problem
    study = scaled.Study(rows=["base", "a_h1"], scale=scale, problem=problem, seeds=1, place=place)
    path, page = scaled.run(study, lambda line: None, in_this_process)
    rows = json.loads(path.read_text())["3-scaled"]["rows"]
    assert [(row["row"], row["seeds"]) for row in rows] == [("base", 1), ("a_h1", 1)]
    assert all(1 < row["PPL"] < 10_000 and row["BLEU"] >= 0 for row in rows)
    assert "| (A) one head is worse than eight | BLEU | +0.90 |" in page.read_text()
