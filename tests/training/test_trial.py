import dataclasses

import pytest

from t2t_repro import processes, registry
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.training import trial
from t2t_repro.training.trial import Trial

HPARAMS = dataclasses.replace(registry.get_hparams("transformer_test"), num_hidden_layers=1)
SHAPE = BatchShape(5, 7, 9)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [None, 2])
def test_steps_are_made_and_measured(devices):
    made = trial.run(HPARAMS, (23, 29), SHAPE, devices)
    assert 0 < made.step_seconds < 60 and made.memory > 5e7 and made.failure == ""


@pytest.mark.parametrize(
    "ended, failure",
    [
        (processes.Ended(-9, ""), "killed, as the system does where there is no memory"),
        (processes.Ended(1, "OOM: RESOURCE_EXHAUSTED: 3 GB"), "out of memory"),
        (processes.Ended(1, "ImportError: no such module"), ""),
    ],
)
def test_how_it_may_end(monkeypatch, ended, failure):
    monkeypatch.setattr(processes, "run", lambda *arguments, watch: ended)
    assert trial.run(HPARAMS, (23, 29), SHAPE) == Trial(failure=failure)


def test_a_step_that_takes_too_long_says_nothing_of_memory(monkeypatch):
    def killed(*arguments, watch):
        assert not watch(0)
        return processes.Ended(-9, "")

    monkeypatch.setattr(trial, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(processes, "run", killed)
    assert trial.run(HPARAMS, (23, 29), SHAPE) == Trial()
