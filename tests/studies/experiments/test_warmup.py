"""Every cell is trained from the same beginning, divergence is a row, and sentences follow."""

import math

import numpy as np
import pytest

from t2t_repro.studies.compare import warmup as experiment
from t2t_repro.studies.compare.warmup import POST, PRE, Row
from t2t_repro.studies.experiments import copying
from t2t_repro.study.variants import Grid
from t2t_repro.training import distribution


class Learner:
    """Keeps what it is given; under post-norm its second step at the whole peak is not finite."""

    made: list = []

    def __init__(self, make):
        self.post = make().hparams.layer_postprocess_sequence == "dan"
        self.cells = []
        Learner.made.append(self)

    def begin(self, seed):
        self.cells.append((seed, [], []))

    def learn(self, batch, rate):
        _, rates, batches = self.cells[-1]
        rates.append(rate)
        batches.append(batch["inputs"])
        if self.post and len(rates) == 2 and rates[0] == pytest.approx(experiment.RATE):
            raise distribution.NotFinite(float("nan"))

    def evaluate(self, batch):
        return {"loss": 1.5, "accuracy": 0.25}


def made(post, pre, steps=experiment.STEPS):
    """Rows of the means given by warm-up; the second seed is 0.1 above the first."""
    return [
        Row(sequences, warmup, seed, steps, value + seed / 10, 0.5)
        for sequences, values in ((POST, post), (PRE, pre))
        for warmup, value in zip(experiment.WARMUPS, values, strict=True)
        for seed in range(experiment.SEEDS)
    ]


@pytest.fixture
def result(monkeypatch):
    monkeypatch.setattr(copying, "Learner", Learner)
    monkeypatch.setattr(experiment, "STEPS", 3)
    monkeypatch.setattr(Learner, "made", [])
    return experiment.run()


def test_a_cell_that_is_not_finite_is_a_row(result):
    assert len(result.rows) == 2 * len(experiment.WARMUPS) * experiment.SEEDS
    stopped = [row for row in result.rows if row.steps < 3]
    assert stopped == [Row(POST, 0, seed, 1, math.inf, 0.0) for seed in range(experiment.SEEDS)]
    assert {row[3:] for row in result.rows if row not in stopped} == {(3, 1.5, 0.25)}


def test_nothing_but_sequences_and_rates_differs(result):
    post, pre = Learner.made
    assert post.post and not pre.post
    assert [cell[0] for cell in post.cells] == [cell[0] for cell in pre.cells]
    of_seed = {seed: batches for seed, _, batches in pre.cells}
    for seed, _, batches in post.cells + pre.cells:
        for mine, others in zip(batches, of_seed[seed], strict=False):
            np.testing.assert_array_equal(mine, others)
    assert (of_seed[0][0] != of_seed[1][0]).any()
    peak = experiment.RATE
    rates = {
        warmup: pre.cells[i * experiment.SEEDS][1] for i, warmup in enumerate(experiment.WARMUPS)
    }
    assert rates[0] == pytest.approx([peak] * 3)
    assert rates[200] == pytest.approx([0, peak / 200, peak / 100])


def test_the_models_differ_in_their_sequences_alone():
    whole = experiment.asked()
    assert isinstance(whole, Grid)
    cells = [cell for cell in whole.cells() if cell.warmup == 50 and cell.seed == 1]
    post, pre = (vars(whole.hparams_of(cell)) for cell in cells)
    differing = {name for name in post if post[name] != pre[name]}
    assert differing == {"layer_preprocess_sequence", "layer_postprocess_sequence"}
    assert post["num_hidden_layers"] == experiment.DEPTH and post["hidden_size"] == 64


def test_post_norm_that_needs_a_warm_up_and_pre_norm_that_does_not_are_support():
    first, second = experiment.sentences(made([2.0, 0.5, 0.9], [0.2, 0.15, 0.9]))
    assert first.startswith(
        "As Xiong et al. say, post-norm needs a warm-up here: 200 steps end with a dev loss of "
        "2.05 (2.00 to 2.10) after 0, "
    )
    assert second.startswith("Pre-norm is not shown to need one: 0.25 (0.20 to 0.30) after 0, ")
    assert second.endswith("; 0 of 12 trainings stopped at a loss that was not finite.")


def test_the_other_way_round_is_no_support():
    first, second = experiment.sentences(made([0.2, 0.15, 0.9], [2.0, 0.5, 0.9], steps=7))
    assert first.startswith("The numbers do not support that post-norm needs a warm-up here: ")
    assert second.startswith("Not as they say, pre-norm needs one too: ")
    assert second.endswith("; 12 of 12 trainings stopped at a loss that was not finite.")


def test_a_cell_that_is_not_finite_needs_a_warm_up(result):
    first, second = result.sentences
    assert first.startswith("As Xiong et al. say") and "inf (inf to inf) after 0" in first
    assert second.endswith("; 2 of 12 trainings stopped at a loss that was not finite.")
