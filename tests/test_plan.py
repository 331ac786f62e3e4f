import dataclasses

import pytest

from t2t_repro import plan
from t2t_repro.config import HParams
from t2t_repro.training import devices
from t2t_repro.training.devices import ONE
from tests.machines import EIGHT, TWO_CORES


def test_this_machine():
    found = plan.examine(ONE, HParams())
    assert found.kind == "CPU" and found.memory > 1e8 and " core" in found.devices
    assert 1e8 < found.rate < 1e15 and found.sharing == found.replicas == 1
    assert devices.names(ONE) == found.devices


def test_parts_of_a_cpu_share_its_rate_and_a_gpu_has_its_own():
    hparams = HParams(hidden_size=1024)

    def seconds(machine):
        return plan._step_seconds(hparams, 9.5e12, machine)

    three = dataclasses.replace(TWO_CORES, replicas=3, sharing=3)
    assert seconds(three) == pytest.approx(seconds(TWO_CORES)) == 9.5e12 / 150e9 / 0.8
    one = dataclasses.replace(EIGHT, replicas=1)
    layers = 0.55e-3 * (hparams.encoder_layers + hparams.decoder_layers)
    assert seconds(one) - layers == pytest.approx(8 * (seconds(EIGHT) - layers))
