import dataclasses
import subprocess

import pytest

from t2t_repro.config import HParams
from t2t_repro.training import devices, plan
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.devices import ONE, Devices
from tests.machines import EIGHT, TWO_CORES


@pytest.fixture
def smi(monkeypatch, tmp_path):
    """Puts something in the place of nvidia-smi: smi("NAME, MB"); None: it fails."""

    def install(said: str | None):
        path = tmp_path / "nvidia-smi"
        work = "exit 9" if said is None else f"cat <<END\n{said}\nEND"
        path.write_text(f"#!/bin/sh\n{work}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_the_gpus_that_the_driver_knows(smi, monkeypatch):
    smi("NVIDIA H100, 81559\nNVIDIA T4, [N/A]")
    assert devices.nvidia_gpus() == [("NVIDIA H100", 81559 << 20), ("NVIDIA T4", 0)]
    smi(None)
    assert devices.nvidia_gpus() == []

    def hangs(*args, **how):
        raise subprocess.TimeoutExpired("nvidia-smi", how["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    assert devices.nvidia_gpus() == []


def test_a_gpu_that_is_not_found_and_a_cpu_in_parts_are_warned_of(smi, monkeypatch):
    smi("NVIDIA H100, 81559")
    (warning,) = devices.warnings(ONE, None)
    assert "tensorflow[and-cuda]" in warning and "85.5 GB" in warning
    assert devices.warnings(Devices(kind="GPU"), None) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (warning,) = devices.warnings(ONE, None)
    assert "CUDA_VISIBLE_DEVICES='-1'" in warning
    smi(None)
    assert devices.warnings(ONE, 1) == devices.warnings(ONE, None) == []
    (warning,) = devices.warnings(Devices(local=3), 3)
    assert "--worker_gpu=3" in warning
    several = Devices(cluster=Cluster(("a:1", "b:1"), 1), local=2, kind="GPU")
    assert devices.warnings(several, 2) == []


def test_this_machine():
    found = plan.examine(ONE, "float32")
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
