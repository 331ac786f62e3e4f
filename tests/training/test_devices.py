"""Which devices are chosen and refused. That they train as one: test_distribution.py."""

import json
import os
import subprocess
import types

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training import devices
from t2t_repro.training.devices import ONE, Cluster, Devices, cluster_of

TWO_WORKERS = {
    "TF_CONFIG": json.dumps(
        {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    )
}


@pytest.fixture
def four_gpus(monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * 4)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: None)


@pytest.mark.parametrize("worker_gpu", [None, 1])
def test_without_a_gpu_it_is_one_cpu(worker_gpu):
    assert devices.choose(worker_gpu, {}) == ONE
    assert ONE.replicas == 1


def test_an_empty_tf_config_is_taken_away_from_tensorflow(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", " ")
    assert devices.choose(1) == ONE and "TF_CONFIG" not in os.environ
    alone = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    assert devices.choose(1) == ONE and "TF_CONFIG" in os.environ


def test_all_gpus_are_taken_by_default(four_gpus, monkeypatch):
    import tensorflow as tf

    names = [f"gpu:{number}" for number in range(4)]
    logical = [tf.config.LogicalDevice(name, "GPU") for name in names]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: logical)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", tuple)
    assert devices.choose(None, {}) == Devices(tuple(names), Cluster(), 4, "GPU")
    assert devices.choose(3, {}).strategy == tuple(names[:3])


def test_more_devices_than_there_are_are_refused(four_gpus, monkeypatch):
    with pytest.raises(UserError, match="--worker_gpu"):
        devices.choose(5, {})
    monkeypatch.undo()
    monkeypatch.setattr(devices, "available_cores", lambda: 3)
    with pytest.raises(UserError, match="--worker_gpu"):
        devices.choose(4, {})
    with pytest.raises(UserError, match="--worker_gpu"):
        devices.choose(2, TWO_WORKERS)  # the CPU of a worker is not divided


def test_a_cpu_in_use_is_not_divided():
    import tensorflow as tf

    tf.config.list_logical_devices()  # TensorFlow has begun
    with pytest.raises(UserError, match="--worker_gpu"):
        devices.choose(2, {})


@pytest.mark.parametrize("platform, keeps", [("gpu", True), ("cpu", False)])
def test_jax_keeps_the_programs_of_a_gpu(monkeypatch, platform, keeps):
    jax, kept = pytest.importorskip("jax"), []
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(platform=platform)])
    monkeypatch.setattr(devices, "_keep_programs", lambda: kept.append(platform))
    assert devices.choose(1, {}).kind == ("GPU" if keeps else "CPU")
    assert bool(kept) == keeps


def test_several_workers_need_tensorflow(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match="TF_CONFIG"):
        devices.choose(None, TWO_WORKERS)


def test_devices_of_several_workers_are_counted():
    second = Devices(None, Cluster(("a:1", "b:2", "c:3"), 1), 4, "GPU")
    assert second.replicas == 12 and second.first_replica == 4


def test_workers_with_other_settings_are_refused(monkeypatch):
    def gathered(self, checksums):
        return np.stack([checksums, checksums + [0, 1, 1]])

    monkeypatch.setattr(Devices, "_gather", gathered)
    two = Devices(None, Cluster(("a:1", "b:2"), 1))
    with pytest.raises(UserError, match="worker 1 .b:2. .* data, flags"):
        two.check_alike({"hparams": 1, "data": 2, "flags": 3})


def test_one_worker_has_nobody_to_wait_for():
    assert ONE.all_reduce([3, 0]) == [3, 0]
    ONE.check_alike({"hparams": 1})


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


def test_a_gpu_that_is_not_found_is_warned_of(smi, monkeypatch, capsys):
    def said(where=ONE):
        devices.warn(where)
        return capsys.readouterr().err

    smi("NVIDIA H100, 81559")
    assert "tensorflow[and-cuda]" in (found := said()) and "85.5 GB" in found
    assert said(Devices(kind="GPU")) == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES='-1'" in said()
    smi(None)
    assert said() == ""


THREE = ["a:2222", "b:2222", "c:70"]


def parse(jobs, index, kind="worker") -> Cluster:
    task = {"type": kind, "index": index}
    return cluster_of({"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})})


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": " \n"}])
def test_without_tf_config_a_worker_is_alone(environment):
    alone = cluster_of(environment)
    assert alone == Cluster() and alone.size == 1 and alone.is_chief


def test_the_chief_is_worker_0_or_the_one_of_that_name():
    assert parse({"worker": THREE}, 0) == Cluster(tuple(THREE), 0)
    second = parse({"worker": THREE}, 1)
    assert (second.index, second.size, second.is_chief) == (1, 3, False)
    jobs = {"worker": THREE[:2], "chief": THREE[2:]}
    assert parse(jobs, 0, "chief") == Cluster(("c:70", "a:2222", "b:2222"), 0)
    assert [parse(jobs, index).index for index in (0, 1)] == [1, 2]


def test_a_task_that_is_no_worker_is_refused():
    with pytest.raises(ValueError):
        parse({"worker": THREE, "evaluator": ["d:1"]}, 0, "evaluator")
