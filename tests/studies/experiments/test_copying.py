"""Sentences to copy, and a model that may begin anew."""

import dataclasses

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.studies.experiments import copying

SYMBOLS = 6


def test_sentences_are_copied_end_and_padding_included():
    batch = copying.draw_batch(np.random.default_rng(3), 200, (2, 5), SYMBOLS)
    ids = batch["inputs"]
    assert batch["targets"] is ids and ids.shape == (200, 6) and ids.dtype == np.int32
    ends = np.argmax(ids == 1, axis=1)
    assert set(ends) == {2, 3, 4, 5}  # as long as asked, the shortest and the longest included
    for row, end in zip(ids, ends, strict=True):
        assert set(row[:end]) <= set(range(2, 2 + SYMBOLS)) and not row[end + 1 :].any()
    assert set(ids[ids > 1]) == set(range(2, 2 + SYMBOLS))


@pytest.mark.slow
def test_a_model_learns_and_begins_anew():
    hparams = dataclasses.replace(
        registry.get_hparams("transformer_quickstart"),
        num_hidden_layers=1,
        hidden_size=16,
        filter_size=8,
    )
    learner = copying.Learner(lambda: copying.transformer(hparams, SYMBOLS))
    batch = copying.draw_batch(np.random.default_rng(3), 7, (3, 3), SYMBOLS)

    def losses(seed, rate):
        learner.begin(seed)
        return [learner.learn(batch, rate) for _ in range(9)]

    first, still = losses(5, 0.01), losses(5, 0.0)
    assert first[-1] < first[0] - 0.3
    assert still == pytest.approx([first[0]] * 9, rel=1e-5)  # a rate of 0
    assert losses(5, 0.01) == pytest.approx(first, rel=1e-5)  # nothing is left of the past
    assert losses(6, 0.01)[0] != first[0]
    found = learner.evaluate(batch)
    assert {"loss", "accuracy", "accuracy_per_sequence"} <= found.keys()
    assert 0 < found["loss"] < 3 and 0 <= found["accuracy"] <= 1


def test_a_spread_is_mean_least_and_greatest():
    assert copying.spread([0.5, 1.0, 0.75]) == "0.75 (0.50 to 1.00)"
