"""Hparams that no training can follow are refused before anything heavy is loaded."""

import pytest

from t2t_repro import config, registry
from t2t_repro.errors import UserError
from t2t_repro.training import optimizers, trainable


def named(schedule, **settings):
    return config.HParams(learning_rate_schedule=schedule, **settings)


def legacy(scheme, **settings):
    return config.HParams(learning_rate_decay_scheme=scheme, **settings)


@pytest.mark.parametrize(
    "hparams, name",
    [
        (named("constant*linear_warmpu"), "linear_warmup"),
        (named("*"), "learning_rate_schedule"),
        (named("cosdecay", learning_rate_decay_steps=0), "learning_rate_decay_steps"),
        (
            named("rsqrt_normalized_decay", learning_rate_warmup_steps=0),
            "learning_rate_warmup_steps",
        ),
        (named("single_cycle_cos_decay", train_steps=50), "train_steps=50"),
        (legacy("piecewise"), "learning_rate_decay_scheme"),
        (
            legacy("cosine", learning_rate_cosine_cycle_steps=0),
            "learning_rate_cosine_cycle_steps",
        ),
        (config.HParams(optimizer="adamm"), "'adam'"),
    ],
)
def test_refuses_what_is_not_defined(hparams, name):
    with pytest.raises(UserError, match=name):
        trainable.check(hparams)


@pytest.mark.parametrize("name", ["transformer_base_v1", "transformer_big", "paper_table3_base"])
def test_takes_the_sets(name):
    trainable.check(registry.get_hparams(name))


def test_divides_by_what_the_configuration_says_that_it_reads():
    for part, field in trainable._DIVIDES_BY.items():
        assert field in config.FACTORS[part]
    for part, field in trainable._SCHEME_DIVIDES_BY.items():
        assert field in {*config.SCHEMES[part], *config.FACTORS["legacy"]}
    assert optimizers.KINDS.keys() == config.OPTIMIZERS.keys()
