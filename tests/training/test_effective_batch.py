"""Updates of a set size, by what the batches of the data hold."""

from dataclasses import replace

import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data.needs import DataNeeds
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import effective_batch, trainable
from t2t_repro.training.request import Plan, TrainRequest


@pytest.fixture(autouse=True)
def batches(monkeypatch):
    """Batches of which three quarters are source tokens, and two thirds target tokens."""

    def real_tokens(request, data):
        size = request.config.hparams.batch_size
        return 0.75 * size, 2 / 3 * size

    monkeypatch.setattr(effective_batch, "real_tokens", real_tokens)
    there = DataNeeds("data", "raw", files=1)
    monkeypatch.setattr(effective_batch, "data_of", lambda request: there)


def request_of(path, steps=30, **changes):
    hparams = HParams(batch_size=700, train_steps=steps, **changes)
    config = RunConfig(
        hparams_set="mine",
        hparams=hparams,
        problem="algorithmic_reverse_quickstart",
        data_dir="data",
        version="0",
    )
    problem = registry.get_problem(config.problem)
    how = Plan(train_steps=steps)
    return TrainRequest(run=RunDirectory(path), config=config, problem=problem, plan=how)


@pytest.mark.parametrize("replicas, gathered", [(1, 5), (2, 3), (5, 1), (17, 1)])
def test_batches_are_gathered_and_made_smaller(tmp_path, replicas, gathered):
    request = effective_batch.choose(request_of(tmp_path, effective_batch_size=2400), replicas)
    chosen = request.config.hparams
    assert (chosen.optimizer_multistep_accumulate_steps or 1) == gathered
    assert chosen.optimizer == ("multistep_adam" if gathered > 1 else "adam")
    tokens = replicas * gathered * chosen.batch_size * (0.75 + 2 / 3) / 2
    assert tokens == pytest.approx(2400, rel=0.01) and chosen.batch_size <= 700
    assert trainable.batches_per_step(chosen) == gathered and chosen.train_steps == 30


def test_of_sizes_that_are_rounded_down_the_nearest_is_taken(tmp_path, monkeypatch):
    """As those of buckets: here to multiples of 160, of which 480 is the nearest to 500."""
    asked = []

    def real_tokens(request, data):
        asked.append(request.config.hparams.batch_size)
        return 2 * (asked[-1] // 160 * 160 or 1,)

    monkeypatch.setattr(effective_batch, "real_tokens", real_tokens)
    chosen = effective_batch.choose(request_of(tmp_path, effective_batch_size=500), 1)
    assert chosen.config.hparams.batch_size // 160 == 3 and 1 < len(asked) < 9


def test_what_asks_for_no_size_stays(tmp_path):
    request = request_of(tmp_path, optimizer="adafactor")
    assert effective_batch.choose(request, 3) is request


def test_a_run_that_goes_on_keeps_its_batches(tmp_path):
    asked = request_of(tmp_path / "run", effective_batch_size=2400)
    begun = effective_batch.choose(asked, 2)
    begun.run.begin(begun.config, ["t2t-trainer"], [])
    again = trainable.resumed(asked.config.hparams, begun.config.hparams)
    assert again == begun.config.hparams and trainable.batches_per_step(again) == 3
    resumed = replace(asked, config=replace(asked.config, hparams=again))
    assert effective_batch.choose(resumed, 2).plan == begun.plan
    for changes in (
        {"batch_size": 9},
        {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 4},
    ):
        with pytest.raises(UserError, match=[*changes][-1]):
            trainable.resumed(replace(asked.config.hparams, **changes), begun.config.hparams)
    tuned = trainable.requested(begun.config.hparams)
    assert (tuned.optimizer, tuned.train_steps) == ("adam", 30)
    other = HParams(batch_size=700)
    assert trainable.requested(other) is other
    assert trainable.resumed(other, begun.config.hparams) is other
    assert trainable.batches_per_step(other) == 1


def test_what_contradicts_it_is_refused(tmp_path):
    several = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 4}
    request = request_of(tmp_path, effective_batch_size=2400, **several)
    with pytest.raises(UserError, match="2400"):
        effective_batch.choose(request, 1)
    with pytest.raises(UserError, match="effective_batch_size"):
        HParams(effective_batch_size=9, optimizer="adafactor")
    with pytest.raises(UserError, match="effective_batch_size"):
        HParams(effective_batch_size=9, optimizer="Adam")
    for reading in (
        {"learning_rate_schedule": "constant*linear_decay"},
        {"subword_dropout": 0.1, "subword_dropout_final_steps": 7},
        {"bidirectional_steps": 7},
    ):
        with pytest.raises(UserError, match="train_steps"):
            HParams(effective_batch_size=9, **reading)
