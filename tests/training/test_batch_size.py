"""How large a batch may be, and how many make an update of a set size."""

from dataclasses import replace

import pytest

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.config import HParams
from t2t_repro.data.needs import DataNeeds
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import batch_size, trainable
from t2t_repro.training.request import Plan, TrainRequest

MB = 2**20


def request_of(path, **changes):
    hparams = HParams(**{"batch_size": 700, "train_steps": 30, **changes})
    name = "algorithmic_reverse_quickstart"
    config = RunConfig(hparams_set="x", hparams=hparams, problem=name, data_dir="d", version="0")
    problem, plan = registry.get_problem(name), Plan(train_steps=30)
    return TrainRequest(run=RunDirectory(path), config=config, problem=problem, plan=plan)


@pytest.mark.parametrize("peak", [MemoryError(), 600 * MB])
def test_a_size_that_does_not_fit_is_halved(tmp_path, monkeypatch, capsys, peak):
    tried, gathers = [], {"effective_batch_size": 9000}

    def call(function, config, load_user_code):
        tried.append(config.hparams.batch_size)
        assert config.hparams.optimizer_multistep_accumulate_steps == 2
        if tried[-1] > fits and isinstance(peak, MemoryError):
            raise peak
        return 500 * MB if tried[-1] <= fits else peak

    fits = 250
    monkeypatch.setattr(batch_size.process, "call", call)
    monkeypatch.setattr(batch_size.process, "total_memory", lambda: 569 * MB)
    request = request_of(tmp_path, batch_size=1000, **gathers)
    assert batch_size.find(request) == 250 and tried == [1000, 500, 250]
    assert capsys.readouterr().out.endswith("--hparams=batch_size=250\n")
    fits = 0
    with pytest.raises(UserError):
        batch_size.find(request)


@pytest.mark.parametrize(
    "longest, packed, changes, shapes",
    [
        # The last bucket holds 10 of up to 100; no other holds more tokens.
        (300, None, {}, [(10, 100)]),
        # Of up to 70: most tokens in 36 of 26, and in 15 of 59 most pairs of them.
        (70, None, {}, [(15, 59), (36, 26)]),
        (256, 256, {}, [(3, 256), (36, 26)]),
        (40, None, dict(batch_size=6, max_length=50, use_fixed_batch_size=True), [(6, 40)]),
    ],
)
def test_the_largest_batches(longest, packed, changes, shapes):
    buckets = dict(batch_size=1000, max_length=100, min_length_bucket=8, length_bucket_step=1.5)
    hparams = HParams(**{**buckets, **changes})
    found = batch_size.largest_batches(hparams, longest, packed_length=packed)
    for side in ("inputs", "targets"):
        assert [batch[side].shape for batch in found] == shapes


@pytest.fixture
def batches(monkeypatch):
    """Batches of which three quarters are source tokens, and two thirds target tokens."""

    def mean_batch(request, data):
        size = request.config.hparams.batch_size
        return (1, 1, 1), (0.75 * size, 2 / 3 * size)

    monkeypatch.setattr(batch_size, "mean_batch", mean_batch)
    there = DataNeeds("data", "raw", files=1)
    monkeypatch.setattr(batch_size, "data_of", lambda request: there)


@pytest.mark.parametrize("replicas, gathered", [(1, 5), (2, 3), (5, 1), (17, 1)])
def test_batches_are_gathered_and_made_smaller(tmp_path, batches, replicas, gathered):
    request = batch_size.choose(request_of(tmp_path, effective_batch_size=2400), replicas)
    chosen = request.config.hparams
    assert (chosen.optimizer_multistep_accumulate_steps or 1) == gathered
    assert chosen.optimizer == ("multistep_adam" if gathered > 1 else "adam")
    tokens = replicas * gathered * chosen.batch_size * (0.75 + 2 / 3) / 2
    assert tokens == pytest.approx(2400, rel=0.01) and chosen.batch_size <= 700
    assert trainable.batches_per_step(chosen) == gathered and chosen.train_steps == 30


def test_of_sizes_that_are_rounded_down_the_nearest_is_taken(tmp_path, batches, monkeypatch):
    """As those of buckets: here to multiples of 160, of which 480 is the nearest to 500."""
    asked = []

    def mean_batch(request, data):
        asked.append(request.config.hparams.batch_size)
        return (1, 1, 1), 2 * (asked[-1] // 160 * 160 or 1,)

    monkeypatch.setattr(batch_size, "mean_batch", mean_batch)
    chosen = batch_size.choose(request_of(tmp_path, effective_batch_size=500), 1)
    assert chosen.config.hparams.batch_size // 160 == 3 and 1 < len(asked) < 9


def test_a_run_that_goes_on_keeps_its_batches(tmp_path, batches):
    plain = request_of(tmp_path, optimizer="adafactor")
    assert batch_size.choose(plain, 3) is plain
    asked = request_of(tmp_path / "run", effective_batch_size=2400)
    begun = batch_size.choose(asked, 2)
    begun.run.begin(begun.config, ["t2t-trainer"], [])
    hparams, before = asked.config.hparams, begun.config.hparams
    again = trainable.resumed(hparams, before)
    assert again == before and trainable.batches_per_step(again) == 3
    values = {"hparams": "label_smoothing=0.2", "train_steps": None, "model": None}
    values |= {"hparams_set": "", "warm_start_from": ""}
    _, alone = trainer.hparams_of(values, begun.config)  # of a command that names no set
    assert alone == replace(before, label_smoothing=0.2)
    with pytest.raises(UserError, match="batch_size"):
        trainer.hparams_of(values | {"hparams": "batch_size=9"}, begun.config)
    resumed = replace(asked, config=replace(asked.config, hparams=again))
    assert batch_size.choose(resumed, 2) is resumed
    for changes in (
        {"batch_size": 9},
        {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 4},
    ):
        with pytest.raises(UserError, match=[*changes][-1]):
            trainable.resumed(replace(hparams, **changes), before)
    tuned = trainable.requested(before)
    assert (tuned.optimizer, tuned.train_steps) == ("adam", 30)
    other = HParams(batch_size=700)
    assert trainable.requested(other) is other
    assert trainable.resumed(other, before) is other
    assert trainable.batches_per_step(other) == 1


def test_gathering_that_the_user_says_is_not_for_an_effective_size(tmp_path, batches):
    several = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 4}
    with pytest.raises(UserError, match="2400"):
        batch_size.choose(request_of(tmp_path, effective_batch_size=2400, **several), 1)
