"""The learning rate against T2T's own tables, and against plain Python where there is no table."""

import dataclasses
import json
import math
import pathlib

import keras
import numpy as np
import pytest

from t2t_repro import config, registry
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.training import learning_rate, optimizers, trainable

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
TABLES = json.loads((GOLDEN / "learning_rate.json").read_text())
SETS = json.loads((GOLDEN / "hparams.json").read_text())
GATHERED = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 4}
READ = [f.name for f in dataclasses.fields(HParams) if f.name.startswith("learning_rate")]


def tables_hparams(name: str) -> HParams:
    values = {field: SETS[name][field] for field in [*READ, "hidden_size", "optimizer"]}
    steps = SETS[name]["optimizer_multistep_accumulate_steps"]
    return HParams(
        **values, num_heads=1, train_steps=300_000, optimizer_multistep_accumulate_steps=steps
    )


def named(schedule: str, **changes) -> HParams:
    return HParams(learning_rate_schedule=schedule, **changes)


def legacy(scheme: str | None, **changes) -> HParams:
    return HParams(learning_rate_decay_scheme=scheme, optimizer="adam", **changes)


def rate(hparams: HParams, step: float) -> float:
    return float(learning_rate.Schedule(hparams)(step))


@pytest.mark.parametrize("name", sorted(TABLES))
def test_equals_the_tables_of_t2t(name):
    schedule = learning_rate.Schedule(tables_hparams(name))
    ours = [float(schedule(step)) for step, _ in TABLES[name]]
    np.testing.assert_allclose(ours, [theirs for _, theirs in TABLES[name]], rtol=1e-6)


def test_every_table_is_there():
    assert len(TABLES) == 95


@pytest.mark.parametrize(
    ("hparams", "step", "expected"),
    [
        (named("single_cycle_cos_decay", train_steps=500), 100, 1.0),
        (named("single_cycle_cos_decay", train_steps=500), 200, 0.5 + math.cos(math.pi / 4) / 2),
        (named("single_cycle_cos_decay", train_steps=500), 500, 0.0),
        (named("multi_cycle_cos_decay", learning_rate_decay_steps=30), 7, 1.0),
        (named("multi_cycle_cos_decay", learning_rate_decay_steps=30), 115, 0.5),
        (named("multi_cycle_cos_decay", learning_rate_decay_steps=30), 160, 1.0),
        (named("rsqrt_normalized_decay"), 400, 0.5),
        (named("rsqrt_normalized_decay"), 5, 1.0),
        (named("exp_decay", learning_rate_decay_rate=0.5), 50, 1.0),
        (named("exp_decay", learning_rate_decay_rate=0.5), 7600, 0.5**1.5),
        (
            named("exp_decay", learning_rate_decay_rate=0.5, learning_rate_decay_staircase=True),
            7600,
            0.5,
        ),
        (named("linear_decay", train_steps=9000), 3999, 1.0),
        (named("linear_decay", train_steps=9000), 6500, 0.5),
        (named("linear_decay", train_steps=9000), 9001, 0.0),
        (named("cosdecay"), 100, 1.0),
        (named("cosdecay"), 101, 0.5 + math.cos(math.pi * 101 / 5000) / 2),
        (named(" constant * rsqrt_hidden_size ", learning_rate_constant=3.0), 1, 3.0 / 8),
        (named("constant*legacy", learning_rate_constant=3.0), 200, 3.0 * 0.002 * 0.1),
        (legacy("none"), 0, 0.01 * 0.0002),
        (legacy(None), 50, 0.1 * 0.0002),
        (legacy(""), 100, 0.0002),
        (legacy("none", learning_rate_warmup_steps=0), 0, 0.0002),
        (legacy("exp", learning_rate_decay_rate=0.5), 2600, 0.0002 * 0.5**0.5),
        (
            legacy("exp", learning_rate_decay_rate=0.5, learning_rate_decay_staircase=True),
            2600,
            0.0002,
        ),
        (legacy("cosine", learning_rate_cosine_cycle_steps=300), 150, 0.0001),
        (legacy("cosine", learning_rate_cosine_cycle_steps=300), 600, 0.0002),
        (legacy("cyclelinear10x"), 100, 3.3 * 0.0002),
        (legacy("cyclelinear10x"), 200, 0.3 * 0.0002),
        (legacy("cyclelinear10x"), 250, 1.8 * 0.0002),
        (legacy("sqrt"), 100, 500 * 0.0002),
        (legacy("sqrt"), 725, 20 * 0.0002),
        (legacy("noam", learning_rate_warmup_steps=0), 3, 0.5 * 5000 / 8 * 0.0002),
        (named("legacy", optimizer="Adafactor"), 200, 0.1),  # "adam" is not in this name
        # Without a warm-up it is whole at once, where batches are gathered too.
        (named("linear_warmup*rsqrt_decay", learning_rate_warmup_steps=0), 0, 1.0),
        (named("linear_warmup*rsqrt_decay", learning_rate_warmup_steps=0), 4, 0.5),
        (named("linear_warmup", learning_rate_warmup_steps=0, **GATHERED), 0, 1.0),
        (named("linear_warmup", learning_rate_warmup_steps=0, **GATHERED), 1, 1.0),
        (named("linear_warmup", **GATHERED), 6, 1.5 / 100),
        (named("linear_decay", train_steps=7000, learning_rate_minimum=0.25), 3000, 0.8),
        (named("linear_decay", train_steps=7000, learning_rate_minimum=0.25), 6900, 0.25),
    ],
)
def test_schedules_without_a_table(hparams, step, expected):
    assert rate(hparams, step) == pytest.approx(expected, rel=3e-6, abs=1e-9)


def test_takes_numbers_tensors_and_variables():
    schedule = learning_rate.Schedule(named("linear_warmup"))
    variable = keras.Variable(7, dtype="int32", trainable=False)
    for step in (7, 7.0, np.int64(7), keras.ops.convert_to_tensor(7), variable):
        assert float(schedule(step)) == pytest.approx(0.07)


def test_the_highest_rate_of_a_training():
    risen = {"learning_rate_warmup_steps": 333}
    once = named("linear_warmup*rsqrt_decay", **risen)
    gathered = named("linear_warmup*rsqrt_decay", **risen, **GATHERED)
    assert learning_rate.highest(once, 5000) == rate(once, 333)
    assert learning_rate.highest(once, 200) == rate(once, 199)
    assert learning_rate.highest(gathered, 5000) == rate(gathered, 4 * 333)
    constant = named("constant", learning_rate_constant=0.3)
    assert learning_rate.highest(constant, 1) == pytest.approx(0.3)


def test_the_configuration_says_what_each_factor_and_scheme_reads():
    assert list(config.FACTORS) == list(learning_rate._FACTORS)
    assert list(config.SCHEMES) == list(learning_rate._SCHEMES)
    names = {field.name for field in dataclasses.fields(config.HParams)}
    assert names.issuperset(set().union(*config.FACTORS.values(), *config.SCHEMES.values()))
    assert optimizers.KINDS.keys() == config.OPTIMIZERS.keys()


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"learning_rate_schedule": "constant*linear_warmpu"}, "linear_warmup"),
        ({"learning_rate_decay_scheme": "piecewise"}, "learning_rate_decay_scheme"),
        ({"optimizer": "adamm"}, "'adam'"),
    ],
)
def test_names_that_no_training_knows_are_refused(settings, name):
    with pytest.raises(UserError, match=name):
        trainable.check(HParams(**settings))
    for known in registry.list_hparams():
        trainable.check(registry.get_hparams(known))
