"""The optimizers against a naive numpy implementation of T2T's update rules, in float64."""

import json

import keras
import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.interop import tensor2tensor
from t2t_repro.layers import kernels
from t2t_repro.layers.layer import FusedVariable
from t2t_repro.training import learning_rate, optimizers

STEPS = 7
SHAPES = {"kernel": (5, 3), "bias": (4,), "scale": (2,), "fused": (6, 9), "table": (7, 8)}
PARTS = {"fused": (1, (2, 4, 3)), "table": (0, (4, 3))}
SCHEDULE = dict(learning_rate_schedule="constant*linear_warmup", learning_rate_warmup_steps=4)
QUIET = dict(clip_grad_norm=0.0, weight_decay=0.0, learning_rate_constant=0.01)


def make_hparams(**changes) -> HParams:
    return HParams(**(SCHEDULE | QUIET | changes))


def make_problem(seed: int = 0):
    """Returns {name: value} and for each step {name: gradient}."""
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    steps = [{n: rng.normal(size=s) for n, s in SHAPES.items()} for _ in range(STEPS)]
    return values, steps


def made(name: str, value: np.ndarray) -> keras.Variable:
    if name not in PARTS:
        return keras.Variable(value, dtype="float32", name=name)
    axis, sizes = PARTS[name]
    return FusedVariable(value, dtype="float32", name=name, axis=axis, sizes=sizes)


def run_ours(hp: HParams, values, steps) -> dict[str, np.ndarray]:
    variables = {name: made(name, value) for name, value in values.items()}
    optimizer = optimizers.from_hparams(hp)
    optimizer.build(list(variables.values()))
    for gradients in steps:
        grads = [keras.ops.convert_to_tensor(gradients[n], "float32") for n in variables]
        optimizer.apply(grads, list(variables.values()))
    assert int(optimizer.iterations) == len(steps)
    return {name: keras.ops.convert_to_numpy(v) for name, v in variables.items()}


def naive_regularize(hp: HParams, gradients, values):
    """The L2 term of all but biases, then the clipping."""
    gradients = {
        name: grad if name == "bias" else grad + hp.weight_decay * values[name]
        for name, grad in gradients.items()
    }
    if hp.clip_grad_norm:
        norm = np.sqrt(sum(np.sum(grad**2) for grad in gradients.values()))
        if norm > hp.clip_grad_norm:
            gradients = {n: grad * hp.clip_grad_norm / norm for n, grad in gradients.items()}
    return gradients


def naive_adam(hp: HParams, values, steps):
    """By AdamW a variable decays twice, and regardless of the learning rate."""
    decoupled_decay = hp.weight_decay * (hp.optimizer == "adam_w")
    values, rate = dict(values), learning_rate.Schedule(hp)
    n = hp.optimizer_multistep_accumulate_steps or 1
    b1, b2 = hp.optimizer_adam_beta1, hp.optimizer_adam_beta2
    m, v, sums = ({name: 0.0 for name in values} for _ in range(3))
    for step, gradients in enumerate(steps):
        gradients = naive_regularize(hp, gradients, values)
        sums = {name: sums[name] + grad for name, grad in gradients.items()}
        if (step + 1) % n:
            continue
        t = (step + 1) // n
        for name in values:
            g = sums[name] / n
            m[name] = b1 * m[name] + (1 - b1) * g
            v[name] = b2 * v[name] + (1 - b2) * g**2
            size = float(rate(step)) * np.sqrt(1 - b2**t) / (1 - b1**t)
            values[name] = values[name] * (1 - decoupled_decay)
            values[name] -= size * m[name] / (np.sqrt(v[name]) + hp.optimizer_adam_epsilon)
        sums = {name: 0.0 for name in values}
    return values


def naive_adafactor(hp: HParams, values, steps):
    """Every part is a variable of its own from the beginning to the end."""
    rate, slots = learning_rate.Schedule(hp), {}
    split = {name: split_up(name, value) for name, value in values.items()}
    for step, gradients in enumerate(steps):
        joined = {name: join(name, parts) for name, parts in split.items()}
        gradients = naive_regularize(hp, gradients, joined)
        for name, parts in split.items():
            for i, g in enumerate(split_up(name, gradients[name])):
                slot = slots.setdefault((name, i), {"r": 0.0, "c": 0.0, "v": 0.0, "m": 0.0})
                parts[i] = parts[i] - naive_adafactor_update(hp, parts[i], g, slot, step, rate)
    return {name: join(name, parts) for name, parts in split.items()}


def naive_adafactor_update(hp, value, g, slot, step, rate):
    if hp.optimizer_adafactor_decay_type == "pow":
        decay = 1 - (step + 1) ** -hp.optimizer_adafactor_memory_exponent
    else:
        b2 = hp.optimizer_adafactor_beta2
        decay = b2 * (1 - b2**step) / (1 - b2 ** (step + 1))
    g2 = g**2 + 1e-30
    if hp.optimizer_adafactor_factored and g.ndim >= 2:
        slot["r"] = decay * slot["r"] + (1 - decay) * g2.mean(1)
        slot["c"] = decay * slot["c"] + (1 - decay) * g2.mean(0)
        second = np.outer(slot["r"] / slot["r"].mean(), slot["c"])
    else:
        second = slot["v"] = decay * slot["v"] + (1 - decay) * g2
    x = g / np.sqrt(second)
    if hp.optimizer_adafactor_clipping_threshold:
        rms = np.sqrt(np.mean(x**2))
        x = x / max(1.0, rms / hp.optimizer_adafactor_clipping_threshold)
    scale = 1.0
    if hp.optimizer_adafactor_multiply_by_parameter_scale:
        scale = max(np.sqrt(np.mean(value**2)), 1e-3)
    beta1 = hp.optimizer_adafactor_beta1
    slot["m"] = beta1 * slot["m"] + (1 - beta1) * float(rate(step)) * scale * x
    return slot["m"]


def split_up(name, value):
    axis, sizes = PARTS.get(name, (0, [value.shape[0]]))
    return np.split(value, np.cumsum(sizes)[:-1], axis)


def join(name, parts):
    return np.concatenate(parts, PARTS.get(name, (0, None))[0])


CLIP_AND_DECAY = dict(clip_grad_norm=3.0, weight_decay=0.3)
ADAFACTOR = dict(optimizer="adafactor")
MULTISTEP = dict(optimizer="multistep_adam", optimizer_multistep_accumulate_steps=3)


@pytest.mark.parametrize(
    "changes",
    [
        dict(optimizer="Adam"),
        dict(optimizer="true_adam", optimizer_adam_beta2=0.9, optimizer_adam_epsilon=0.1),
        dict(optimizer="adam", clip_grad_norm=1e5),
        dict(optimizer="adam", **CLIP_AND_DECAY),
        dict(optimizer="adam_w", weight_decay=0.02),
        MULTISTEP,
        MULTISTEP | CLIP_AND_DECAY,
        MULTISTEP | dict(optimizer="MultistepAdam"),
        dict(optimizer="multistep_adam", optimizer_multistep_accumulate_steps=1),
        dict(optimizer="Adafactor"),
        ADAFACTOR | CLIP_AND_DECAY,
        ADAFACTOR | dict(optimizer_adafactor_decay_type="adam", optimizer_adafactor_beta2=0.9),
        ADAFACTOR | dict(optimizer_adafactor_memory_exponent=0.3),
        ADAFACTOR | dict(optimizer_adafactor_factored=False),
        ADAFACTOR | dict(optimizer_adafactor_beta1=0.7),
        ADAFACTOR | dict(optimizer_adafactor_clipping_threshold=0.25),
        ADAFACTOR | dict(optimizer_adafactor_clipping_threshold=0.0),
        ADAFACTOR | dict(optimizer_adafactor_multiply_by_parameter_scale=False),
    ],
    ids=str,
)
def test_it_walks_tensor2tensors_trajectory(changes):
    hp = make_hparams(**changes)
    values, steps = make_problem()
    naive = naive_adam
    if hp.optimizer.lower() == "adafactor":
        naive = naive_adafactor
        values["scale"] = values["scale"] * 1e-5 + 1e-5  # below the smallest scale
    ours = run_ours(hp, values, steps)
    for name, value in naive(hp, values, steps).items():
        assert np.abs(value - values[name]).max() > 5e-6, f"{name} did not move"
        np.testing.assert_allclose(ours[name], value, atol=1e-6, err_msg=name)


def test_adam_without_the_kernel_that_updates_in_one_pass(monkeypatch):
    monkeypatch.setattr(kernels, "PLAIN", True)
    for changes in (dict(optimizer="adam"), MULTISTEP):
        test_it_walks_tensor2tensors_trajectory(changes)


def test_adafactor_keeps_factors_and_one_mean_of_updates_at_most():
    values, steps = make_problem()
    variables = [made("fused", values["fused"])]
    optimizer = optimizers.from_hparams(make_hparams(optimizer="adafactor"))
    optimizer.build(variables)
    shapes = [tuple(v.shape) for v in optimizer.variables[1:]]
    assert shapes == [(6,), (2,), (6,), (4,), (6,), (3,)]


def test_repeated_tokens_of_a_sparse_gradient_add_up_before_they_are_squared():
    table = keras.Variable(np.zeros((4, 3), "float32"), name="table")
    model = keras.Sequential(
        [keras.layers.Input((5,), dtype="int32"), keras.layers.Embedding(4, 3)]
    )
    model.layers[0].embeddings.assign(table)
    optimizer = optimizers.from_hparams(make_hparams(optimizer="adam", optimizer_adam_beta2=0.9))
    model.compile(optimizer, loss=lambda y, p: keras.ops.sum(p))
    model.train_on_batch(np.array([[1, 1, 1, 2, 2]]), np.zeros((1, 5, 3)))
    velocity = keras.ops.convert_to_numpy(optimizer.variables[2])
    np.testing.assert_allclose(velocity, np.outer([0, 0.9, 0.4, 0], [1, 1, 1]), rtol=1e-5)


@pytest.mark.parametrize("optimizer", ["adam_w", "multistep_adam", "adafactor"])
def test_survives_serialization(optimizer):
    steps = 2 * (optimizer == "multistep_adam")
    hp = make_hparams(optimizer=optimizer, optimizer_multistep_accumulate_steps=steps)
    ours = optimizers.from_hparams(hp)
    config = json.loads(json.dumps(keras.optimizers.serialize(ours)))
    again = keras.optimizers.deserialize(config)
    assert type(again) is type(ours)
    assert again.get_config() == ours.get_config()
    assert type(ours)().l2 == type(ours)().clip_norm == 0


def test_a_gradient_that_is_not_finite_is_not_hidden_by_clipping():
    optimizer = optimizers.from_hparams(make_hparams(optimizer="adam", clip_grad_norm=1.0))
    variable = keras.Variable(np.ones(3, "float32"), name="scale")
    optimizer.build([variable])
    for _ in range(2):
        optimizer.apply([keras.ops.convert_to_tensor([1.0, np.inf, 1.0])], [variable])
    assert np.isnan(keras.ops.convert_to_numpy(variable)).all()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer_test", "norm_type=batch"),  # whose bias is `beta` in T2T, and decays
        ("transformer_test", "norm_type=layer"),
        ("lstm_attention", "hidden_size=16"),
        ("bytenet_base", "hidden_size=16,num_hidden_layers=1"),
    ],
)
def test_what_does_not_decay_are_the_biases_by_tensor2tensors_names(name, changes):
    hparams = registry.get_hparams(name, f"{changes},weight_decay=0.1")
    model = registry.get_model(hparams.model).from_hparams(
        hparams, inputs_vocab_size=9, targets_vocab_size=11
    )
    optimizer = optimizers.from_hparams(hparams)
    optimizer.build(model.trainable_variables)
    kinds = {
        (entry.names[0].endswith("bias") and len(entry.shapes[0]) == 1)
        == optimizer._is_bias(entry.variable)
        for entry in tensor2tensor.entries(model)
        if entry.variable.trainable
    }
    assert kinds == {True}
