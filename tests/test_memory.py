import os

from t2t_repro import memory


def test_memory_is_in_bytes():
    held = memory.resident(os.getpid())
    assert 5e6 < held <= memory.peak() < 100e9
    assert memory.resident(2**30) == 0
    assert 10e6 < memory.free() < 1e14


def test_the_limit_of_a_cgroup_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("70000\n")
    (tmp_path / "memory.current").write_text("30001\n")
    assert memory.free() == 39999
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() > 1e6
