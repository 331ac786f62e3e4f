"""The training step: the same in fit and the trainer; an update that is not finite is skipped."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_repro
from t2t_repro.training import devices, distribution, optimizers
from tests import forks

HPARAMS = (
    "hidden_size=12,num_heads=3,filter_size=20,num_hidden_layers=1,learning_rate_warmup_steps=4"
)


def build(overrides="", where=devices.ONE):
    keras.utils.set_random_seed(5)
    hparams = t2t_repro.get_hparams("transformer_base_v1", f"{HPARAMS}{overrides}")
    with where.scope():
        model = t2t_repro.Transformer.from_hparams(
            hparams, inputs_vocab_size=17, targets_vocab_size=19, target_space_id=4
        )
        model.compile(optimizer=optimizers.from_hparams(hparams))
    where.broadcast(model)
    return model


def batches(count, packed=False):
    draw = np.random.default_rng(3)
    for _ in range(count):
        sides = {"inputs": draw.integers(2, 17, (4, 5)), "targets": draw.integers(2, 19, (4, 7))}
        sides["targets"][0, -2:] = 0
        for side in list(sides) if packed else ():
            ids = sides[side]
            second = (np.arange(ids.shape[1]) >= 3)[None] * np.ones_like(ids)
            sides[f"{side}_segmentation"] = np.where(ids == 0, 0, 1 + second)
            sides[f"{side}_position"] = np.arange(ids.shape[1]) - 3 * second
        yield {name: ids.astype("int32") for name, ids in sides.items()}


def fit(model, data) -> list[float]:
    return [float(model.train_on_batch(batch, return_dict=True)["loss"]) for batch in data]


def compare(overrides="", packed=False) -> dict:
    """Returns the losses of five steps of fit and of the trainer, and if the weights are equal."""
    fitted, trained = build(overrides), build(overrides)
    step = distribution.step_function(trained)
    losses = {
        "fit": fit(fitted, batches(5, packed)),
        "trainer": [step(batch).loss for batch in batches(5, packed)],
    }
    pairs = zip(fitted.variables, trained.variables, strict=True)
    return losses | {"same": all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)}


def spoil() -> dict:
    """Returns what a batch does whose loss is not finite: to the loss, the weights, the next."""
    model, (first, second) = build(), batches(2)
    fit(model, [first])
    before = [np.asarray(weight) for weight in model.weights]
    slots = [np.asarray(variable) for variable in model.optimizer.variables]
    loss_of = model.loss_of
    model.loss_of = lambda *of: (loss_of(*of)[0] + float("nan"), None)
    model.make_train_function(force=True)
    (loss,) = fit(model, [second])
    after = [np.asarray(weight) for weight in model.weights]
    kept = [np.asarray(variable) for variable in model.optimizer.variables]
    pairs = [*zip(before, after, strict=True), *zip(slots, kept, strict=True)]
    same = all(np.array_equal(a, b) for a, b in pairs)
    model.loss_of = loss_of
    model.make_train_function(force=True)
    (again,) = fit(model, [second])
    moved = any(not np.array_equal(a, w) for a, w in zip(before, model.weights, strict=True))
    return {"nan": bool(np.isnan(loss)), "same": same, "goes_on": bool(again > 0) and moved}


def norms() -> float:
    """Returns by how much the gradients' squared norms of float16, without its scale, differ."""
    plain, squares = ",layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0", []
    for more in ("", ",activation_dtype=float16"):
        model = build(plain + more)
        model.run_eagerly = True
        step = distribution.step_function(model)
        squares.append(np.sum(step(next(iter(batches(1))), True).squares))
    return float(abs(squares[1] / squares[0] - 1))


def on_replicas() -> dict:
    """Returns the losses of fit on one device and on two, and what a bad shard does to both."""

    two = devices.choose(2)
    overrides = ",layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
    losses = {}
    for name, where in {"one": devices.ONE, "two": two}.items():
        model = build(overrides, where)
        data = list(batches(5))
        losses[name] = fit(model, data)
    before = [np.asarray(weight) for weight in model.weights]
    table = model.targets_embedding.trainable_variables[0]
    loss_of = model.loss_of

    def spoiled(*of):
        first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        return loss_of(*of)[0] + tf.where(first, float("nan"), 0.0), None

    model.loss_of = spoiled
    with two.scope():
        model.make_train_function(force=True)
        fit(model, data[:1])
    after = [np.asarray(weight) for weight in model.weights]
    parts = [np.asarray(part).tolist() for part in table.value.values]
    same = all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    return losses | {"same": same, "alike": parts[0] == parts[1]}


def main() -> None:
    """Prints what the tests look at, in a process of its own."""
    jax = keras.backend.backend() == "jax"
    print(
        json.dumps(
            {"plain": compare(), "spoiled": spoil(), "norms": norms()} if jax else on_replicas()
        )
    )


def result_of(**environment: str) -> dict:
    return json.loads(forks.said_by(__file__, **environment).splitlines()[-1])


@pytest.mark.parametrize(
    "overrides, packed",
    [
        ("", False),
        pytest.param(",activation_dtype=float16", False, marks=pytest.mark.slow),
        pytest.param("", True, marks=pytest.mark.slow),
    ],
)
def test_fit_makes_the_steps_of_the_trainer(overrides, packed):
    result = compare(overrides, packed)
    assert result["fit"] == pytest.approx(result["trainer"], rel=1e-6)
    assert result["same"] and result["fit"][0] != result["fit"][-1]


def test_norms_are_those_without_the_scale_of_the_loss():
    assert norms() < 0.05


@pytest.mark.slow
def test_a_batch_that_is_not_finite_changes_nothing_in_fit():
    assert spoil() == {"nan": True, "same": True, "goes_on": True}


@pytest.mark.slow
def test_under_jax():
    result = result_of(KERAS_BACKEND="jax")
    assert result["plain"]["fit"] == pytest.approx(result["plain"]["trainer"], rel=1e-5)
    assert result["plain"]["same"] and result["norms"] < 0.05
    assert result["spoiled"] == {"nan": True, "same": True, "goes_on": True}


@pytest.mark.slow
def test_fit_on_two_replicas_is_fit_on_one_and_both_leave_a_step_out():
    result = result_of()
    assert result["two"] == pytest.approx(result["one"], rel=1e-5)
    assert result["same"] and result["alike"]


if __name__ == "__main__":
    main()


def test_a_step_whose_norm_has_no_end_is_left_out():
    """Clipping would divide by it, though the loss and each gradient have an end."""
    usual = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    ours = optimizers.from_hparams(t2t_repro.get_hparams("transformer_test", "clip_grad_norm=1"))
    for optimizer in (ours, keras.optimizers.SGD(1.0, global_clipnorm=1)):
        model = build()
        loss = {"loss": lambda labels, logits: 1e24 * usual(labels, logits)}
        model.compile(optimizer, **loss, run_eagerly=True)
        before = model.get_weights()
        assert np.isfinite(fit(model, batches(1))).all()
        for old, now in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(old, now)
