"""The paper's tables, with what runs' files say."""

import json
import types

import numpy as np
import pytest

from t2t_repro.paper import tables
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from tests import untrained

BLEU = {
    "sacrebleu": {"score": 26.61, "signature": "tok:13a"},
    "compound_split": {"score": 27.11, "signature": "split"},
}


@pytest.fixture
def run(tmp_path):
    """A run directory, as t2t-trainer leaves it."""
    return untrained.begun(tmp_path / "run", "transformer_base_v1", "translate_ende_wmt32k")


def rows_of(table):
    return table.as_dict()["rows"]


@pytest.mark.parametrize("kind, devices, of", [("GPU", 8, 1), ("CPU", 1, 7)])
def test_what_a_run_cost(tmp_path, kind, devices, of):
    """Of steps of one batch, and of several."""
    several = f"effective_batch_size=99,optimizer_multistep_accumulate_steps={of}"
    overrides = f"optimizer=multistep_adam,{several}" if of > 1 else ""
    name = "translate_ende_wmt32k"
    run = untrained.begun(tmp_path / "run", "transformer_base_v1", name, overrides)
    for step, rate in ((100, 0.0), (200, 500.0), (300, 250.0)):
        run.append_metrics({"kind": "train", "step": step, "tokens_per_second": rate})
    assert tables.cost(run) is None
    (run.path / TRAINING_DATA).write_text('{"targets_tokens": 9000, "batches": 3}')
    machine = {"kind": kind, "replicas": 8, "rate": 2e12}
    (run.path / PLAN).write_text(json.dumps({"parameters": 77, "machine": machine}))
    seconds = (100 * 3000 / 500 + 100 * 3000 / 250) * 300 / 200  # the first 100 as the others
    assert tables.cost(run) == (pytest.approx(of * seconds / 3600), devices, 2.0)


def test_the_perplexity_is_of_the_sentences_that_the_run_was_mostly_evaluated_on(run):
    assert tables.perplexity(run) is None
    dev = {"kind": "eval", "split": "dev", "sample": "all 9 examples"}
    for more in ({"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0}):
        run.append_metrics(dev | more)
    run.append_metrics(dev | {"step": 20, "loss": 1.0, "sample": "2 examples"})
    assert tables.perplexity(run) == pytest.approx(np.exp(2.0))
    (run.path / "averaged").mkdir()
    for step, loss in ((9, 0.5), (11, 0.0), ("12-10-batches", 1.0)):
        file = run.path / "averaged" / f"eval-dev-{step}.json"
        file.write_text(json.dumps({"metrics": {"loss": loss}}))
    assert tables.perplexity(run) == 1.0  # of the newest average


def test_runs_stand_below_the_papers(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tables.parameters, "count", lambda *of: types.SimpleNamespace(total=7e6))
    for name, bleu in (("bleu.json", BLEU), ("bleu-dev.json", {"sacrebleu": {"score": 3.25}})):
        (run.path / name).write_text(json.dumps(bleu))
    RunDirectory(tmp_path / "other").begin(run.config, ["t2t-trainer"], [])
    (tmp_path / "other" / "f1.json").write_text('{"all": {"f1": 88.76}}')
    found = tables.runs_in(str(tmp_path))
    assert [each.path.name for each in found] == ["other", "run"]
    assert [each.path for each in tables.runs_in(str(run.path))] == [run.path]
    assert tables.runs_in(str(tmp_path / "nowhere")) == []
    second, third, fourth = (
        rows_of(table(found)[0]) for table in (tables.table2, tables.table3, tables.table4)
    )
    assert [len(rows) for rows in (second, third, fourth)] == [11, 21, 13]  # the papers' and ours
    names = [second[-1]["system"], third[-1]["set"], fourth[-1]["parser"]]
    assert names == [str(run.path), str(run.path), str(tmp_path / "other")]
    assert [second[-1][name] for name in ("BLEU En-De", "BLEU En-Fr")] == [27.11, None]
    assert (second[-1]["sacreBLEU"], fourth[-1]["F1"]) == (26.61, 88.76)
    assert [third[-1][name] for name in ("BLEU", "d", "PPL")] == [3.25, 512, None]
