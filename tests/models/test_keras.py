"""The model as Keras means it: what compile, fit, evaluate and predict take, and what they say."""

import keras
import numpy as np
import pytest

import t2t_repro
from t2t_repro.errors import UserError
from tests import forks

OFF = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
DRAW = np.random.default_rng(3)
X = DRAW.integers(2, 17, (8, 5)).astype("int32")
Y = DRAW.integers(2, 19, (8, 7)).astype("int32")
Y[0, -2:] = Y[3, 4:] = 0
BATCH = {"inputs": X, "targets": Y}
EAGER = keras.backend.backend() != "jax"  # which compiles every operation of its own
HALVES = np.where(np.arange(8) < 4, 0.5, 1.0).astype("float32")  # (B,)


def new(overrides=OFF):
    keras.utils.set_random_seed(5)
    hparams = t2t_repro.get_hparams(
        "transformer_base_v1",
        f"hidden_size=12,num_heads=3,filter_size=20,num_hidden_layers=1,{overrides}",
    )
    return t2t_repro.Transformer(hparams, inputs_vocab_size=17, targets_vocab_size=19)


def build(overrides=OFF, model=None, **compiled):
    model = model or new(overrides)
    model.build()
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), "run_eagerly": EAGER} | compiled)
    return model


def expected(model, batches=(BATCH,)):
    """Returns the loss and the accuracy of all real targets, by NumPy."""
    losses, right = [], []
    for batch in batches:
        logits = np.asarray(model(batch)).astype("float64")
        labels = batch["targets"]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses.append(-np.take_along_axis(log_probs, labels[..., None], -1)[..., 0][labels != 0])
        right.append((logits.argmax(-1) == labels)[labels != 0])
    return {"loss": np.concatenate(losses).mean(), "accuracy": np.concatenate(right).mean()}


def logits_crossentropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def test_the_forms_of_data_say_the_same():
    model = build()
    whole = np.asarray(model(BATCH))
    for form in ((X, Y), [X, Y]):
        np.testing.assert_array_equal(model(form), whole)
    np.testing.assert_allclose(model.predict(BATCH, batch_size=3, verbose=0), whole, atol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch((X, Y)), whole, atol=1e-5)
    assert model.attention_weights((X, Y)).keys() == model.attention_weights(BATCH).keys()
    mask = model.compute_mask(BATCH)
    np.testing.assert_array_equal(mask, Y != 0)
    losses = [build().train_on_batch(*form) for form in ((BATCH,), (X, Y), ((X, Y),))]
    assert losses[0] == losses[1] == losses[2]


def test_loss_and_accuracy_are_those_of_all_real_targets_whatever_the_batches():
    model = build(metrics=["accuracy"])
    short = {"inputs": X[3:4], "targets": Y[3:4, :4]}

    def batches():
        yield from ((short,), (BATCH,))

    found = model.evaluate(batches(), verbose=0, return_dict=True)
    assert found == pytest.approx(expected(model, [short, BATCH]), rel=1e-5)
    assert model.evaluate(X, Y, batch_size=3, verbose=0, return_dict=True) == pytest.approx(
        expected(model), rel=1e-5
    )
    assert model.test_on_batch(X, Y) == pytest.approx(list(expected(model).values()), rel=1e-5)


def test_sample_weight_weighs_sentences_or_targets():
    halves = np.where(np.arange(8) < 4, 0.5, 1.0)
    model = build("label_smoothing=0.1," + OFF, weighted_metrics=["accuracy"])
    plain = np.array(model.evaluate(X, Y, verbose=0))
    of_half = (
        model.evaluate(X[:4], Y[:4], verbose=0)[0] * np.count_nonzero(Y[:4]) / np.count_nonzero(Y)
    )
    for weights in (halves, halves[:, None], halves[:, None] * np.ones((8, 7))):
        found = model.evaluate(X, Y, sample_weight=weights, verbose=0)
        assert found[0] == pytest.approx(plain[0] - of_half / 2, rel=1e-5)
    before = [np.array(weight) for weight in model.get_weights()]
    history = model.fit(BATCH, sample_weight=np.zeros(8), verbose=0).history
    assert history["loss"] == [0.0] and history["accuracy"] == [0.0]
    for old, new_ in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new_)


def test_a_loss_of_ones_own_takes_the_place_of_the_models():
    plain = build("label_smoothing=0," + OFF)
    own = build("label_smoothing=0," + OFF, loss=logits_crossentropy(), metrics=["accuracy"])
    same = [
        [model.train_on_batch(X, Y, HALVES, return_dict=True)["loss"] for _ in range(2)]
        for model in (plain, own)
    ]
    assert same[0] == pytest.approx(same[1], rel=1e-5)
    nothing = build(loss=lambda labels, logits: keras.ops.sum(logits, -1) * 0.0)
    assert nothing.fit(BATCH, verbose=0).history["loss"] == [0.0]
    nothing.compile("sgd", run_eagerly=EAGER)
    assert nothing.evaluate(BATCH, verbose=0) > 1  # the model's own again


def test_a_saved_model_goes_on_with_its_optimizer(tmp_path):
    model = build(metrics=["accuracy"], optimizer=keras.optimizers.Adam(0.1))
    model.fit(BATCH, verbose=0, batch_size=4, validation_split=0.25)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(BATCH), model(BATCH))
    again.run_eagerly = EAGER
    losses = [each.train_on_batch(BATCH, return_dict=True) for each in (model, again)]
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(again(BATCH), model(BATCH))


def test_weights_of_a_larger_model_are_refused_whole(tmp_path):
    larger = build(f"{OFF},num_encoder_layers=2", optimizer=keras.optimizers.Adam())
    larger.train_on_batch(BATCH)
    larger.save_weights(path := tmp_path / "larger.weights.h5")
    larger.load_weights(path)  # beside the optimizer's state
    smaller = build()
    before = smaller.get_weights()
    with pytest.raises(UserError):
        smaller.load_weights(path)
    for now, then in zip(smaller.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.slow
def test_the_ways_to_run_a_step_give_the_same():
    arguments = {"batch_size": 4, "shuffle": False, "epochs": 2, "verbose": 0}
    plain = build(metrics=["accuracy"], run_eagerly=EAGER).fit(X, Y, **arguments).history
    under_jax = keras.backend.backend() == "jax"  # which compiles each of the others alike
    for options in ({"steps_per_execution": 2}, {"jit_compile": True}, {})[: 1 if under_jax else 3]:
        other = build(metrics=["accuracy"], run_eagerly=False, **options)
        assert other.jit_compile == options.get("jit_compile", under_jax)
        found = other.fit(X, Y, **arguments).history
        assert found.keys() == plain.keys()
        for name, values in plain.items():
            assert found[name] == pytest.approx(values, rel=1e-4), options


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="runs under JAX what is here")
def test_under_jax():
    which = ("-q", "-m", "slow or not slow", __file__)
    forks.said_by("-m", "pytest", "-n", "0", *which, KERAS_BACKEND="jax")
