"""What fit's callbacks add: BLEU, samples, the best, norms, the guard; Keras's own beside them."""

import json
from unittest import mock

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro import callbacks
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import checkpoints, distribution, optimizers
from tests import forks

HPARAMS = (
    "hidden_size=12,num_heads=3,filter_size=20,num_hidden_layers=1,learning_rate_warmup_steps=4,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
)
DRAW = np.random.default_rng(3)
BATCH = {
    "inputs": DRAW.integers(2, 17, (8, 5)).astype("int32"),
    "targets": DRAW.integers(2, 19, (8, 7)).astype("int32"),
}
TEXT = ["a dog", "a tree runs", "over the field"]
SAMPLE = callbacks.TextSample(TEXT, TEXT[::-1], ByteTextEncoder())


def build(size=(17, 19), **compiled):
    keras.utils.set_random_seed(5)
    hparams = t2t_repro.get_hparams("transformer_base_v1", HPARAMS)
    model = t2t_repro.Transformer.from_hparams(
        hparams, inputs_vocab_size=size[0], targets_vocab_size=size[1]
    )
    compiled = {"run_eagerly": keras.backend.backend() == "tensorflow"} | compiled
    model.compile(**{"optimizer": optimizers.from_hparams(hparams)} | compiled)
    return model


def fit(model, *callbacks, epochs=2, **keywords):
    arguments = {"epochs": epochs, "batch_size": 4, "shuffle": False, "verbose": 0} | keywords
    return model.fit(BATCH, callbacks=list(callbacks), **arguments)


@pytest.fixture
def writer(monkeypatch):
    """Takes the place of the EventWriter of the callbacks."""
    writer = mock.Mock()
    monkeypatch.setattr("t2t_repro.callbacks.monitoring.EventWriter", lambda folder: writer)
    return writer


@pytest.mark.slow
def test_the_norms_are_those_of_the_trainer_and_change_nothing(writer):
    model, other, plain = build(), build(), build()
    how = {"epochs": 3, "validation_data": BATCH}
    histories = [fit(model, callbacks.Summaries("logs", every=3), **how), fit(plain, **how)]
    assert histories[0].history == histories[1].history
    for left, right in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)
    written = {step: values for _, step, values in (c.args for c in writer.scalars.mock_calls)}
    assert list(written) == [3, 6] and writer.close.called
    step, seen = distribution.step_function(other), []
    halves = [{side: ids[i : i + 4] for side, ids in BATCH.items()} for i in (0, 4)]
    for half in 3 * halves:
        seen.append(np.asarray(step(half, True).squares))
    for number, found in written.items():
        squares = seen[number - 1].sum()
        assert found["gradient_norm"] == pytest.approx(np.sqrt(squares), rel=1e-4)
    squares = sum(float(np.square(weight).sum()) for weight in model.get_weights())
    assert found["weight_norm"] == pytest.approx(squares**0.5, rel=1e-5)
    assert found["learning_rate"] == pytest.approx(float(model.optimizer.learning_rate))
    assert found["gradient_norm/encoder/layer_0/ffn"] < found["gradient_norm"]


def spoil(model, bad_step):
    """Makes the loss of a step nan; of run_eagerly."""
    loss_of = model.loss_of

    def spoiled(*of, **how):
        loss, logits = loss_of(*of, **how)
        bad = int(model.optimizer.iterations) == bad_step
        return loss + (float("nan") if bad else 0.0), logits

    model.loss_of = spoiled


@pytest.mark.slow
def test_the_guard_ends_the_training():
    model = build()
    spoil(model, 3)
    for guard, skipped in ((callbacks.StopOnNonFinite(), 1), (callbacks.StopOnNonFinite(2), 3)):
        with pytest.raises(UserError, match=f"max_nonfinite_steps={skipped}"):
            fit(model, guard, epochs=3)
        assert int(model.optimizer.iterations) == 3
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    gathering = keras.optimizers.Adam(1e-3, gradient_accumulation_steps=2)
    model = build(optimizer=gathering)
    fit(model, callbacks.StopOnNonFinite(), epochs=3)
    assert int(model.optimizer.iterations) == 3
    spoil(model, 4)
    with pytest.raises(UserError):
        fit(model, callbacks.StopOnNonFinite(), epochs=3)


def test_bleu_and_the_best_by_it(tmp_path, monkeypatch):
    scores = iter((3.0, 9.0, 5.0))
    monkeypatch.setattr("t2t_repro.callbacks.monitoring.DevBleu.score", lambda self: next(scores))
    best = callbacks.BestCheckpoints(tmp_path, metric="bleu")
    every = {"epochs": 6, "validation_data": BATCH}
    found = fit(build((258, 258)), callbacks.Bleu(SAMPLE, every=2), best, **every)
    found = found.history["val_bleu"]
    assert found == [3.0, 9.0, 5.0]
    ranking = json.loads((tmp_path / "best" / "checkpoints" / "ranking.json").read_text())
    (first,) = ranking["ranking"]
    assert (ranking["metric"], first["step"], first["values"]["bleu"]) == ("bleu", 8, "9.0")


def regression():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="dense")])
    averaging = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)
    model.compile(averaging, "mse", run_eagerly=keras.backend.backend() == "tensorflow")
    return model


@pytest.mark.parametrize("metric", ["loss", "bleu"])
@pytest.mark.parametrize("swap_on_epoch", [None, False, True])
def test_the_best_are_the_weights_that_were_judged(tmp_path, metric, swap_on_epoch):
    def norm(model):
        return float(np.abs(model.get_weights()[0]).sum())

    x, y, model = np.eye(3), np.ones((3, 2)), regression()
    given = [
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: logs.update(val_bleu=norm(model))
        ),
        callbacks.BestCheckpoints(tmp_path, metric, count=3),
    ]
    if swap_on_epoch is not None:
        given.insert(0, keras.callbacks.SwapEMAWeights(swap_on_epoch))
    arguments = {"epochs": 3, "batch_size": 1, "validation_data": (x, y), "verbose": 0}
    history = model.fit(x, y, callbacks=given, **arguments).history
    found, kept = [], regression()
    for path in checkpoints.list_checkpoints(tmp_path / "best"):
        checkpoints.load_weights(kept, path)
        found.append(kept.evaluate(x, y, verbose=0) if metric == "loss" else norm(kept))
    assert found == pytest.approx(history[f"val_{metric}"], rel=1e-5)


@pytest.mark.slow
def test_samples(writer):
    fit(build((258, 258)), callbacks.Samples("logs", SAMPLE, every=2), epochs=3)
    first, second = (call.args for call in writer.text.mock_calls)
    assert first[:3] == ("samples", 4, "translations") and second[1] == 6
    assert "| a dog | over the field |" in first[3]
    assert all(call.args[-1].startswith(b"\x89PNG") for call in writer.picture.mock_calls)


@pytest.mark.slow
def test_keras_own_callbacks(tmp_path):
    own = keras.callbacks
    model = build(optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"])
    given = (
        own.ModelCheckpoint(str(tmp_path / "best.keras"), save_best_only=True),
        own.TensorBoard(str(tmp_path / "logs"), update_freq=1),
        own.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
        own.ReduceLROnPlateau("val_loss", patience=1, min_delta=100.0, factor=0.1),
        own.EarlyStopping(patience=1, min_delta=100.0, restore_best_weights=True),
    )
    history = fit(model, *given, epochs=5, validation_data=BATCH).history
    assert len(history["loss"]) == 2  # EarlyStopping
    assert history["learning_rate"] == pytest.approx([0.005, 0.0025])
    assert float(model.optimizer.learning_rate) == pytest.approx(0.00025)  # ReduceLROnPlateau
    best = keras.saving.load_model(tmp_path / "best.keras")
    assert best.evaluate(BATCH, verbose=0)[0] == pytest.approx(min(history["val_loss"]), rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="runs under JAX what is here")
def test_under_jax():
    chosen = "norms or bleu or judged or samples or keras_own"
    which = ["-m", "slow or not slow", "-k", f"({chosen}) and not jax"]
    forks.said_by("-m", "pytest", "-n", "0", "-q", *which, __file__, KERAS_BACKEND="jax")
