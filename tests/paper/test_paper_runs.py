"""What a run's files say of it."""

import json
import math

import pytest

from t2t_repro.errors import UserError
from t2t_repro.paper import runs, tables
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from tests import untrained

BLEU = {
    "sacrebleu": {"score": 26.61, "signature": "tok:13a"},
    "compound_split": {"score": 27.11, "signature": "split"},
}


@pytest.fixture
def run(tmp_path):
    """A run directory of 7 steps, as t2t-trainer leaves it."""
    run = untrained.begun(tmp_path / "run", "transformer_base_v1", "translate_ende_wmt32k")
    for step in (3, 7):
        run.append_metrics({"step": step})
    return run


@pytest.mark.parametrize(("kind", "devices"), [("GPU", 8), ("CPU", 1)])
def test_what_a_run_cost(run, kind, devices):
    for step, rate in ((100, 0.0), (300, 500.0), (400, 250.0)):
        run.append_metrics({"kind": "train", "step": step, "tokens_per_second": rate})
    assert runs.of(run).cost is None
    (run.path / TRAINING_DATA).write_text('{"targets_tokens": 9000, "batches": 3}')
    machine = {"kind": kind, "replicas": 8, "rate": 2e12}
    (run.path / PLAN).write_text(json.dumps({"parameters": 77, "machine": machine}))
    record = runs.of(run)
    seconds = (200 * 3000 / 500 + 100 * 3000 / 250) * 400 / 300  # the first 100 as the others
    assert record.cost == (pytest.approx(seconds / 3600), devices, 2.0)
    assert (record.parameters, record.step) == (77, 400)


def test_the_perplexity_is_of_the_sentences_that_the_run_was_mostly_evaluated_on(run):
    dev = {"kind": "eval", "split": "dev", "sample": "all 9 examples"}
    for more in ({"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0}):
        run.append_metrics(dev | more)
    run.append_metrics(dev | {"step": 20, "loss": 1.0, "sample": "2 examples"})
    assert runs.of(run).perplexity == pytest.approx(math.exp(2.0))
    (run.path / "averaged").mkdir()
    for step, loss in ((9, 0.5), (11, 0.0)):
        file = run.path / "averaged" / f"eval-dev-{step}.json"
        file.write_text(json.dumps({"metrics": {"loss": loss}}))
    assert runs.of(run).perplexity == 1.0  # of the newest average


@pytest.mark.parametrize("loss", [100.0, 431.5, "nan", "inf"])
def test_a_training_that_diverged_has_no_perplexity(run, loss):
    dev = {"kind": "eval", "split": "dev", "step": 20}
    run.append_metrics(dev | {"loss": 99.0})
    assert runs.of(run).perplexity == pytest.approx(math.exp(99.0))
    run.append_metrics(dev | {"loss": loss})
    assert runs.of(run).perplexity is None


def test_a_folder_of_runs_stands_for_those_in_it(run, tmp_path):
    (run.path / "bleu.json").write_text(json.dumps(BLEU))
    RunDirectory(tmp_path / "dev").begin(run.config(), ["t2t-trainer"], [])
    (tmp_path / "dev" / "bleu-dev.json").write_text('{"sacrebleu": {"score": 3.25}}')
    of_dev, of_run = runs.read(str(tmp_path))
    assert (of_run.path, of_run.step, of_run.bleu) == (str(run.path), 7, BLEU)
    assert (of_dev.bleu, of_dev.f1, of_dev.dev_bleu) == (None, None, 3.25)
    assert runs.read(f" {run.path} ,") == [of_run] and runs.read("") == []
    *_, table = tables.table3([of_dev, of_run])
    assert [row["BLEU"] for row in table.as_dict()["rows"]] == [3.25]


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UserError):
        runs.read(str(tmp_path))
