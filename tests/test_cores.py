import os

import pytest

from t2t_repro import cores

RUNNABLE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_cores_of_the_affinity():
    assert 1 <= cores.available_cores() <= RUNNABLE <= os.cpu_count()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 7),
        ({"cpu.max": "max 100000\n"}, 7),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "900000 100000\n"}, 7),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 7),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "200000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "400000\n"}, 7),
    ],
)
def test_the_quota_of_a_container_counts(tmp_path, monkeypatch, files, expected):
    monkeypatch.setattr(cores, "_CGROUP", tmp_path)
    monkeypatch.setattr(cores, "_runnable", lambda: 7)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores.available_cores() == expected


def test_tensorflow_is_held_to_a_quota_and_the_user_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "_CGROUP", tmp_path)
    monkeypatch.setattr(cores, "_runnable", lambda: 7)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "5")
    environment = dict(os.environ)
    cores.hold_to_quota()
    assert os.environ == environment
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    cores.hold_to_quota()
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", os.environ["TF_NUM_INTRAOP_THREADS"])  # undone
    assert os.environ == environment | {"TF_NUM_INTRAOP_THREADS": "2"}
