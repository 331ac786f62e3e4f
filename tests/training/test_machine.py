import subprocess

import pytest

from t2t_repro.training import machine
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.machine import Device, Machine


@pytest.fixture
def smi(monkeypatch, tmp_path):
    """Puts something in the place of nvidia-smi and of /dev: smi("NAME, MB", devices=2)."""

    def install(said: str | None, devices: int = 0):
        for number in range(devices):
            (tmp_path / f"nvidia{number}").touch()
        monkeypatch.setattr(machine, "_DEV", tmp_path)
        path = tmp_path / "nvidia-smi"
        if said is not None:
            path.write_text(f"#!/bin/sh\ncat <<END\n{said}\nEND\n" if said else "#!/bin/sh\nexit 9")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_the_gpus_that_the_driver_knows(smi):
    smi("NVIDIA H100, 81559\nNVIDIA T4, [N/A]")
    assert machine.nvidia_gpus() == [Device("NVIDIA H100", 81559 << 20), Device("NVIDIA T4", 0)]


@pytest.mark.parametrize("said", [None, ""])
def test_gpus_without_a_driver_that_answers(smi, said):
    smi(said, devices=2)
    assert machine.nvidia_gpus() == [Device("NVIDIA GPU")] * 2


def test_a_gpu_that_is_not_found_is_warned_of(smi, monkeypatch):
    smi("NVIDIA H100, 81559")
    (warning,) = machine.warnings(ONE, None)
    assert warning.startswith(
        "computing on the CPU: the machine has 1 x NVIDIA H100, 85.5 GB, of which tensorflow finds "
        "none. It needs CUDA's libraries: pip install 'tensorflow[and-cuda]'"
    )
    assert machine.warnings(Devices(kind="GPU"), None) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (warning,) = machine.warnings(ONE, None)
    assert warning.endswith("CUDA_VISIBLE_DEVICES='-1' hides them: unset it.")


def test_a_cpu_in_parts_is_warned_of(smi):
    smi(None)
    assert machine.warnings(ONE, 1) == machine.warnings(ONE, None) == []
    (warning,) = machine.warnings(Devices(local=3), 3)
    assert warning.startswith("--worker_gpu=3 splits the CPU into 3 parts, as no GPU is found")
    several = Devices(cluster=Cluster(("a:1", "b:1"), 1), local=2, kind="GPU")
    assert machine.warnings(several, 2) == []


def test_this_machine():
    found = machine.examine(ONE)
    (device,) = found.devices
    assert found.kind == "CPU" and device.memory > 1e8 and " core" in device.name
    assert 1e8 < found.rate < 1e15 and found.rate == found.rate_of_a_replica
    assert machine.names(ONE) == str(found)
    assert 1e8 < machine.measure_rate(size=256, repetitions=2) < 1e15


def test_patience_waits_until_threads_have_their_cores(monkeypatch):
    """They share one in the first second, so that a product takes twice its time."""
    taken = []
    monkeypatch.setattr(machine, "_product", lambda size, dtype: lambda: None)

    def seconds_of(work):
        taken.append(0.2 if sum(taken) < 1 else 0.1)
        return taken[-1]

    monkeypatch.setattr(machine, "_seconds_of", seconds_of)
    flop = 2 * 2048**3
    assert machine.examine(ONE).rate == pytest.approx(flop / 0.2) and len(taken) == 3
    taken.clear()
    assert machine.examine(ONE, patiently=True).rate == pytest.approx(flop / 0.1)


def test_parts_of_a_cpu_share_its_rate_and_gpus_do_not():
    assert Machine((Device("c"),), "CPU", 3, 6e9).rate_of_a_replica == 2e9
    assert Machine((Device("c"),), "CPU", 6, 6e9, workers=2).rate_of_a_replica == 2e9
    assert Machine((Device("g"),) * 3, "GPU", 3, 6e9).rate_of_a_replica == 6e9


def test_devices_for_people():
    mixed = Machine((Device("A", 10**9), Device("B"), Device("A", 10**9)), "GPU", 3, 1e12, "CUDA 9")
    assert str(mixed) == "2 x A, 1.0 GB; 1 x B; CUDA 9"


def test_a_hanging_driver_is_not_waited_for(smi, monkeypatch):
    smi("x, 1", devices=1)

    def hangs(*args, **how):
        raise subprocess.TimeoutExpired("nvidia-smi", how["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    assert machine.nvidia_gpus() == [Device("NVIDIA GPU")]
