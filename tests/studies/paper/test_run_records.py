"""What a run's files say of it, where they are not as the programs write them."""

import json
import math

import pytest

from t2t_repro.run_directory import PLAN, TRAINING_DATA
from t2t_repro.studies.paper import run_records
from tests import untrained

MACHINE = {"kind": "CPU", "replicas": 1, "rate": 4e12}
WHOLE = {"parameters": 9, "machine": MACHINE}


@pytest.fixture
def run(tmp_path):
    """A run of 20 steps of 30 tokens each, at 60 tokens a second."""
    run = untrained.begun(tmp_path / "run", "transformer_test", "p")
    data = {"targets_tokens": 240, "batches": 8}
    (run.path / TRAINING_DATA).write_text(json.dumps(data))
    run.append_metrics({"kind": "train", "step": 20, "tokens_per_second": 60.0})
    return run


def test_the_cost_of_a_run(run):
    (run.path / PLAN).write_text(json.dumps(WHOLE))
    found = run_records.of(run)
    assert found.parameters == 9 and found.cost == (pytest.approx(10 / 3600), 1, 4.0)


def test_rows_without_a_step_and_data_without_a_batch_cost_nothing(run):
    (run.path / PLAN).write_text(json.dumps(WHOLE))
    run.append_metrics({"kind": "train", "tokens_per_second": 9.0})
    assert run_records.of(run).cost.hours == pytest.approx(10 / 3600)
    (run.path / TRAINING_DATA).write_text('{"targets_tokens": 0, "batches": 0}')
    assert run_records.of(run).cost.hours == 0


def test_the_perplexity_is_of_the_sentences_that_the_run_was_mostly_evaluated_on(run):
    dev = {"kind": "eval", "split": "dev", "sample": "all 9 examples"}
    for more in ({"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0}):
        run.append_metrics(dev | more)
    run.append_metrics(dev | {"step": 20, "loss": 1.0, "sample": "2 examples"})
    assert run_records.of(run).perplexity == pytest.approx(math.exp(2.0))
    run.append_metrics({"kind": "eval", "split": "dev", "step": 20, "loss": 1.5})  # as of old
    assert run_records.of(run).perplexity == pytest.approx(math.exp(1.5))


@pytest.mark.parametrize("loss", [100.0, 431.5, "nan", "inf"])
def test_a_training_that_diverged_has_no_perplexity(run, loss):
    dev = {"kind": "eval", "split": "dev", "step": 20}
    run.append_metrics(dev | {"loss": 99.0})
    assert run_records.of(run).perplexity == pytest.approx(math.exp(99.0))
    run.append_metrics(dev | {"loss": loss})
    assert run_records.of(run).perplexity is None
