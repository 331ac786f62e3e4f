"""Which devices are chosen and refused. That they train as one: test_distribution.py."""

import json
import os
import sys
import types

import keras
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training import devices
from t2t_repro.training.devices import ONE, Cluster, Devices, cluster_of

NOBODY: dict[str, str] = {}
TWO_WORKERS = {
    "TF_CONFIG": json.dumps(
        {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    )
}


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * 4)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: None)


@pytest.mark.parametrize("worker_gpu", [None, 1])
def test_without_a_gpu_it_is_one_cpu(worker_gpu):
    assert devices.choose(worker_gpu, {}) == ONE
    assert ONE.replicas == 1
    assert ONE.all_reduce([3, 0]) == [3, 0]  # there is nobody to wait for
    ONE.check_alike({"hparams": 1})


def test_an_empty_tf_config_is_taken_away_from_tensorflow(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", " ")
    assert devices.choose(1) == ONE and "TF_CONFIG" not in os.environ
    alone = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    assert devices.choose(1) == ONE and "TF_CONFIG" in os.environ


def test_all_gpus_are_taken_by_default(four_gpus, monkeypatch):
    names = [f"gpu:{number}" for number in range(4)]
    logical = [tf.config.LogicalDevice(name, "GPU") for name in names]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: logical)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", tuple)
    assert devices.choose(None, {}) == Devices(tuple(names), Cluster(), 4, "GPU")
    assert devices.choose(3, {}).strategy == tuple(names[:3])


def test_more_devices_than_there_are_are_refused(four_gpus, monkeypatch):
    def refuse(count, environment=NOBODY):
        with pytest.raises(UserError, match="--worker_gpu"):
            devices.choose(count, environment)

    refuse(5)
    monkeypatch.undo()
    monkeypatch.setattr(devices, "available_cores", lambda: 3)
    refuse(4)
    refuse(2, TWO_WORKERS)  # the CPU of a worker is not divided
    tf.config.list_logical_devices()  # TensorFlow has begun
    refuse(2)


ALL_PROGRAMS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.mark.parametrize(
    "platform, before, caches, after",
    [
        ("gpu", None, "/x", {"jax_compilation_cache_dir": "/x/t2t_repro/xla", **ALL_PROGRAMS}),
        ("gpu", "", "/x", {"jax_compilation_cache_dir": ""}),  # JAX_COMPILATION_CACHE_DIR=
        ("cpu", None, "/x", {"jax_compilation_cache_dir": None}),
    ],
)
def test_jax_keeps_the_programs_of_a_gpu(monkeypatch, platform, before, caches, after):
    config = types.SimpleNamespace(jax_compilation_cache_dir=before)
    settings = vars(config)
    config.update = settings.__setitem__
    found = [types.SimpleNamespace(platform=platform)]
    jax = types.SimpleNamespace(config=config, devices=lambda: found)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setenv("XDG_CACHE_HOME", caches)
    assert devices.choose(1, NOBODY).kind == platform.upper()
    del settings["update"]
    assert settings == after


def test_several_workers_need_tensorflow(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match="TF_CONFIG"):
        devices.choose(None, TWO_WORKERS)


def test_devices_of_several_workers_are_counted():
    second = Devices(None, Cluster(("a:1", "b:2", "c:3"), 1), 4, "GPU")
    assert second.replicas == 12 and second.first_replica == 4


def test_workers_with_other_settings_are_refused(monkeypatch):
    def worker_sum(self, checksums):
        assert not checksums[0].any()
        return tf.constant(checksums + [checksums[1] - [0, 1, 1], checksums[0]])

    monkeypatch.setattr(Devices, "_worker_sum", worker_sum)
    two = Devices(None, Cluster(("a:1", "b:2"), 1))
    with pytest.raises(UserError, match="worker 1 .b:2. .* data, flags"):
        two.check_alike({"hparams": 1, "data": 2, "flags": 3})


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


def test_the_gpus_that_the_driver_knows(smi):
    smi("NVIDIA H100, 81559\nNVIDIA T4, [N/A]")
    assert devices.nvidia_gpus() == [("NVIDIA H100", 81559 << 20), ("NVIDIA T4", 0)]
    smi(None)
    assert devices.nvidia_gpus() == []


def test_a_gpu_that_is_not_found_is_warned_of(smi, monkeypatch, capsys):
    def said():
        devices.choose(1, NOBODY)
        return capsys.readouterr().err

    smi("NVIDIA H100, 81559")
    assert "tensorflow[and-cuda]" in (found := said()) and "85.5 GB" in found
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES='-1'" in said()
    monkeypatch.setattr(devices, "_under_tensorflow", lambda *of: Devices(kind="GPU"))
    assert said() == ""
    monkeypatch.undo()
    smi(None)
    assert said() == ""


def test_the_chief_is_worker_0_or_the_one_of_that_name():
    def parse(jobs, index, kind="worker") -> Cluster:
        task = {"type": kind, "index": index}
        return cluster_of({"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})})

    for alone in (cluster_of(NOBODY), cluster_of({"TF_CONFIG": " \n"})):
        assert alone == Cluster() and alone.size == 1 and alone.is_chief
    three = ["a:2222", "b:2222", "c:70"]
    assert parse({"worker": three}, 0) == Cluster(tuple(three), 0)
    second = parse({"worker": three}, 1)
    assert (second.index, second.size, second.is_chief) == (1, 3, False)
    jobs = {"worker": three[:2], "chief": three[2:]}
    assert parse(jobs, 0, "chief") == Cluster(("c:70", "a:2222", "b:2222"), 0)
    assert [parse(jobs, index).index for index in (0, 1)] == [1, 2]
    with pytest.raises(ValueError):  # it is no worker
        parse({"worker": three, "evaluator": ["d:1"]}, 0, "evaluator")
