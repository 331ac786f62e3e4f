"""Names that no training knows are refused before anything heavy is loaded."""

import pytest

from t2t_repro import config, registry
from t2t_repro.errors import UserError
from t2t_repro.training import optimizers, trainable


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"learning_rate_schedule": "constant*linear_warmpu"}, "linear_warmup"),
        ({"learning_rate_decay_scheme": "piecewise"}, "learning_rate_decay_scheme"),
        ({"optimizer": "adamm"}, "'adam'"),
    ],
)
def test_refuses_what_it_does_not_know(settings, name):
    with pytest.raises(UserError, match=name):
        trainable.check(config.HParams(**settings))


def test_takes_the_sets_and_every_optimizer():
    for name in registry.list_hparams():
        trainable.check(registry.get_hparams(name))
    assert optimizers.KINDS.keys() == config.OPTIMIZERS.keys()
