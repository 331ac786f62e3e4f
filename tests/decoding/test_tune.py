"""Choosing weights and search after training, and that everything decodes as was chosen."""

import copy
import dataclasses
from unittest import mock

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.decoding import dev_bleu, tune
from t2t_repro.decoding.tune import TuneRequest
from t2t_repro.errors import UserError
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import PROVENANCE, RunConfig, RunDirectory
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints
from t2t_repro.training.best import KeepBest
from tests.decoding.doubled import Doubled

FEW = TuneRequest(n=3, beam_sizes="1,4,5", alphas="0.4,0.6,1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with checkpoints 10, 20, 30 and 40, whose weights are the step / 10; two are kept."""
    folder = tmp_path_factory.mktemp("tuning")
    generate_data(Job(Doubled(), folder / "data", folder))
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test", "num_hidden_layers=1"),
        problem="doubled",
        data_dir=str(folder / "data"),
        version="0",
    )
    run = TrainedRun(folder / "run")
    run.problem = Doubled()
    run.begin(config, ["t2t-trainer"], [])
    model = model_for(Doubled(), config.hparams, config.data_dir)
    for step, loss in {10: 3.0, 20: 1.0, 30: 2.0, 40: 4.0}.items():
        for weight in model.weights:
            weight.assign(np.full(weight.shape, step / 10, weight.dtype))
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
        KeepBest(count=2).add(run, step, {"loss": loss})
    return run


@pytest.fixture
def tried(monkeypatch):
    """What was decoded, (weights, beam_size, alpha); 2.5 is the best weight, 1 the best alpha."""
    log = []

    def score(self, engine, settings):
        weight = float(np.asarray(engine.model.weights[0]).flat[0])
        log.append((weight, settings.beam_size, settings.alpha))
        bleu = 30 - abs(weight - 2.5) + settings.alpha
        return bleu + 0.001 * settings.beam_size  # no difference to two digits

    monkeypatch.setattr(dev_bleu.DevSample, "score", score)
    return log


def test_weights_then_alpha_then_beams_and_of_equals_the_usual(made, tried, tmp_path):
    out = RunDirectory(tmp_path / "out")
    found = tune.tune(made, out, FEW, say=str)
    assert tried == [
        (4.0, 4, 0.6),
        (2.0, 4, 0.6),
        (3.0, 4, 0.6),
        (2.5, 4, 0.6),
        (2.5, 4, 0.4),
        (2.5, 4, 1.0),
        (2.5, 1, 1.0),
        (2.5, 5, 1.0),
    ]
    assert found.weights.steps == (20, 30) and str(found.search) == "beam_size=4,alpha=1"
    assert found.weights.name == "the mean of the best 2 checkpoints by loss (steps 20, 30)"
    (only,) = checkpoints.list_checkpoints(out.path)
    assert only.name == "ckpt-30" and checkpoints.verify(only).averaged == (20, 30)
    assert sorted(path.name for path in out.path.iterdir()) == [
        "checkpoints", "decoding.json", "hparams.json", "run.json"
    ]  # fmt: skip
    assert tune.read(out.path) == found
    # The same again finds it done; something else to try does not.
    del tried[:]
    assert tune.tune(made, out, FEW, say=str) == found and not tried
    tune.tune(made, out, dataclasses.replace(FEW, n=1, alphas="0.6"), say=str)
    assert [each[0] for each in tried] == [4.0, 2.0, 2.0, 2.0]
    (only,) = checkpoints.list_checkpoints(out.path)
    assert only.name == "ckpt-20"


ONE = dataclasses.replace(FEW, n=1, alphas="0.6", beam_sizes="4")  # takes the best, step 20


def state(out):
    """What a decoder sees: the weights, and how to decode with them."""
    (only,) = checkpoints.list_checkpoints(out.path)
    return only.name, checkpoints.verify(only).averaged, tune.read(out.path)


@pytest.mark.parametrize("call", ["delete", "unlink"])
def test_a_result_that_a_kill_leaves_half_is_made_anew(made, tried, tmp_path, monkeypatch, call):
    out = RunDirectory(tmp_path / "out")
    before = tune.tune(made, out, FEW, say=str)
    (out.path / PROVENANCE).write_text("of the result before")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        where = checkpoints if call == "delete" else type(out.path)
        patch.setattr(where, call, mock.Mock(side_effect=KeyboardInterrupt))
        tune.tune(made, out, ONE, say=str)
    assert tune.read(out.path) == before  # beside it whole weights, old or new
    assert all(checkpoints.verify(path) for path in checkpoints.list_checkpoints(out.path))
    found = tune.tune(made, out, ONE, say=str)
    assert state(out) == ("ckpt-20", (20,), found)
    assert sorted(path.name for path in out.path.iterdir()) == [
        "checkpoints", "decoding.json", "hparams.json", "run.json"
    ]  # fmt: skip


ALL = (20, 30, 40)
MULTI = ",optimizer=multistep_adam,optimizer_multistep_accumulate_steps=2"  # its rate stays


@pytest.mark.parametrize("n, more, steps", [(15, "", (30, 40)), (99, "", ALL), (15, MULTI, ALL)])
def test_a_mean_is_of_weights_since_the_rate_falls(made, tried, tmp_path, n, more, steps):
    run, out = falling(made, n, 40, more), RunDirectory(tmp_path / "out")
    found = tune.tune(run, out, FEW, say=str)
    assert [each.steps for each in found.weights_tried][0::2] == [(40,), steps]


def score_by_weights(monkeypatch, bleu):
    def score(self, engine, settings):
        return bleu[float(np.ravel(engine.model.weights[0])[0])]

    monkeypatch.setattr(dev_bleu.DevSample, "score", score)


def falling(made, decay, last, more=""):
    schedule = f"learning_rate_schedule=legacy*linear_decay,learning_rate_decay_steps={decay}"
    hparams = made.config.hparams.override(f"{schedule},train_steps={last}{more}")
    run = copy.copy(made)
    run.config = dataclasses.replace(made.config, hparams=hparams)
    return run


@pytest.mark.parametrize(
    "newest, last, steps",
    [(29.7, 40, (40,)), (29.69, 40, (20, 30)), (29.7, 55, ALL)],  # the last: not yet
)
def test_where_the_rate_falls_the_newest_are_taken_unless_others_are_better_by_more_than_chance(
    made, monkeypatch, tmp_path, newest, last, steps
):
    score_by_weights(monkeypatch, {4.0: newest, 2.0: 29.9, 3.5: 29.8, 3.0: 29.8, 2.5: 30.0})
    run = falling(made, 15, last)
    found = tune.tune(run, RunDirectory(tmp_path / "out"), FEW, say=str)
    assert found.weights.steps == steps


@pytest.mark.parametrize("newest, steps", [(30.3, ALL), (30.31, (40,))])
def test_a_mean_is_taken_unless_another_is_better_by_more_than_chance(
    made, monkeypatch, tmp_path, newest, steps
):
    bleu = {4.0: newest, 2.0: 30.2, 3.0: 30.0, 2.5: 29.9}
    score_by_weights(monkeypatch, bleu)
    found = tune.tune(made, RunDirectory(tmp_path / "out"), FEW, say=str)
    assert found.weights.steps == steps and len(found.weights_tried) == len(bleu)


@pytest.mark.parametrize(
    "gains, search",
    [
        ({(4, 1.0): 0.3, (5, 0.6): 0.3, (1, 0.6): 0.2}, "beam_size=4,alpha=0.6"),
        ({(4, 1.0): 0.31, (1, 1.0): 0.5}, "beam_size=4,alpha=1"),
        ({(4, 0.4): 0.35, (4, 1.0): 0.4}, "beam_size=4,alpha=0.4"),
        ({(5, 0.6): 0.31}, "beam_size=5,alpha=0.6"),
    ],
)
def test_the_usual_search_is_taken_unless_another_is_better_by_more_than_chance(
    made, monkeypatch, tmp_path, gains, search
):
    def score(self, engine, settings):
        return 30 + gains.get((settings.beam_size, settings.alpha), 0)

    monkeypatch.setattr(dev_bleu.DevSample, "score", score)
    found = tune.tune(made, RunDirectory(tmp_path / "out"), FEW, say=str)
    assert str(found.search) == search


def test_a_run_is_not_tuned_into_itself_or_another_and_writes_text(made, tmp_path):
    other = RunDirectory(tmp_path / "other")
    other.begin(dataclasses.replace(made.config, random_seed=7), ["t2t-trainer"], [])
    trees, numbers = copy.copy(made), copy.copy(made)
    trees.problem = registry.get_problem("parsing_wsj4k")
    numbers.problem = registry.get_problem("algorithmic_reverse_binary40")
    new = RunDirectory(tmp_path / "new")
    for run, out in ((made, made), (made, other), (trees, new), (numbers, new)):
        with pytest.raises(UserError):
            tune.check(run, out)
