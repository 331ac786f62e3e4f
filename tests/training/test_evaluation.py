"""What an evaluation leaves behind."""

import gc
import weakref

import numpy as np
import pytest

from t2t_repro.registry import get_hparams, get_model
from t2t_repro.training import evaluation
from t2t_repro.training.evaluation import Evaluator


@pytest.mark.parametrize("name", ["transformer_test", "lstm_attention"])
def test_lengths_are_padded_only_where_the_model_does_not_see_it(monkeypatch, name):
    """As under JAX, which compiles each shape."""
    hparams = get_hparams(name, "hidden_size=16,num_hidden_layers=1")
    model = get_model(hparams.model).from_hparams(
        hparams, inputs_vocab_size=9, targets_vocab_size=11
    )
    rng = np.random.default_rng(3)
    batch = {"inputs": rng.integers(2, 9, (3, 37)), "targets": rng.integers(2, 11, (3, 5))}
    batch = {name: ids.astype("int32") for name, ids in batch.items()}
    expected = Evaluator(model, []).loss(batch)
    monkeypatch.setattr(evaluation.keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(evaluation.copies, "shard_batch", lambda model, grown: grown)
    assert Evaluator(model, []).loss(batch) == pytest.approx(expected, rel=1e-5)


def test_a_model_that_was_evaluated_goes_when_nobody_needs_it(make_model, make_batches):
    model = make_model()
    assert Evaluator(model, []).evaluate(make_batches().take(2))["loss"] > 0
    known = weakref.ref(model)
    del model
    gc.collect()
    assert known() is None
