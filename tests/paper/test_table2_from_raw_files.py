"""Rows of table 2 from small archives of the real shape to the tables, with all programs."""

import importlib
import json

import pytest

from t2t_repro import stages
from t2t_repro.paper import reproduce
from t2t_repro.study import runs
from tests.problems import wmt14_archives

pytestmark = pytest.mark.slow

TINY = "hidden_size=16,filter_size=24,num_heads=2,num_hidden_layers=1"
UPDATES = 3  # as many checkpoints as are averaged here, and one more
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
def place(folders, tmp_path, monkeypatch):
    for module in (stages, runs):
        monkeypatch.setattr(module, "run_program", in_this_process)
    monkeypatch.setattr(reproduce, "_AVERAGED", {"base": 2, "big": 2})
    of = (tmp_path / "output_dir", folders / "data_dir", folders / "tmp_dir")
    return reproduce.Folders(*map(str, of))


def in_this_process(command, doing):
    name, *argv = command
    module = {"t2t-eval": "evaluator"}.get(name, name.removeprefix("t2t-").replace("-", "_"))
    program = importlib.import_module(f"t2t_repro.bin.{module}")
    program.console(argv)


# One of each language and size; the others differ from them in hparams and the vocabulary.
@pytest.mark.parametrize("name", ["ende_base", "enfr_big"])
def test_a_row(place, tmp_path, name, monkeypatch):
    run = reproduce.table2(name, place, TINY, UPDATES)
    plan = json.loads((run / "plan.json").read_text())
    assert plan["problem"] == reproduce.TABLE2[name][0] and plan["batch"]["accumulated"] > 1
    assert plan["vocabulary"][0] < 1200  # what was made, not the 37,000 that the lines lack
    mean = (plan["batch"]["source_tokens"] + plan["batch"]["target_tokens"]) / 2
    assert mean == pytest.approx(25_000, rel=0.03)
    for split, file in zip(("dev", "test"), TESTS[name[:4]], strict=True):
        expected = [line for line in wmt14_archives.lines(f"dev/{file}") if line]
        source = run / "decoded" / f"{split}.source"
        assert len(source.read_text().splitlines()) == len(expected)
    monkeypatch.setattr(stages, "run_program", lambda command, doing: pytest.fail(doing))
    reproduce.table2(name, place, TINY, UPDATES)
    in_this_process(["t2t-paper", "tables", f"--output_dir={place.output_dir}"], "")
    values = json.loads((tmp_path / "output_dir" / "paper.json").read_text())
    row = values["3"]["rows"][-1]
    assert row["set"] == str(run) and 1 < row["PPL"] < 10_000 and row["ours"] < 1
    row = values["2"]["rows"][-1]
    of = "En-Fr" if name.startswith("enfr") else "En-De"
    score = json.loads((run / "bleu.json").read_text())
    assert row["system"] == str(run) and row[f"FLOP {of}"] > 0
    assert row["sacreBLEU"] == score["sacrebleu"]["score"] >= 0
    assert row[f"BLEU {of}"] == score["compound_split"]["score"]


def test_table_3_made_smaller(place, monkeypatch):
    monkeypatch.setattr(reproduce, "PROBLEM", reproduce.TABLE2["ende_base"][0])
    monkeypatch.setattr(runs.process, "call", lambda function, *arguments: function(*arguments))
    changes = "learning_rate_warmup_steps=9,effective_batch_size=300,num_hidden_layers=1"
    study = reproduce.table3(["a_h1"], place, changes, scale=16, train_steps=20, seeds=1)
    path = reproduce.write_table3(runs.run(study, reproduce.write_table3))
    rows = json.loads(path.with_suffix(".json").read_text())["3-scaled"]["rows"]
    assert [(row["row"], row["seeds"]) for row in rows] == [("a_h1", 1)]
    assert all(1 < row["PPL"] < 10_000 and row["BLEU"] >= 0 for row in rows)
