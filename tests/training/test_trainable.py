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
    "hparams, message",
    [
        (
            named("constant*linear_warmpu"),
            "Unknown factor in learning_rate_schedule.*linear_warmup",
        ),
        (legacy("piecewise"), "Unknown learning_rate_decay_scheme.*Received: 'piecewise'"),
        (
            named("cosdecay", learning_rate_decay_steps=0),
            "cosdecay needs learning_rate_decay_steps",
        ),
        (
            named("rsqrt_normalized_decay", learning_rate_warmup_steps=0),
            "rsqrt_normalized_decay needs learning_rate_warmup_steps > 0. Received: 0",
        ),
        (
            legacy("cosine", learning_rate_cosine_cycle_steps=0),
            "cosine needs learning_rate_cosine_cycle_steps > 0",
        ),
        (
            named("single_cycle_cos_decay", train_steps=50),
            "train_steps > learning_rate_warmup_steps. Received: train_steps=50",
        ),
        (named("*"), r"name a factor or a product of some, .*Received: '\*'"),
        (config.HParams(optimizer="adamm"), "Unknown optimizer. Received: 'adamm'.*'adam'"),
    ],
)
def test_refuses_what_is_not_defined(hparams, message):
    with pytest.raises(UserError, match=message):
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
