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
    (tmp_path / "memory.stat").write_text("anon 5\nactive_file 7\ninactive_file 2001\n")
    assert memory.free() == 42000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() > 1e6


def test_pages_of_files_are_free_under_cgroups_of_version_1(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("70000\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("30000\n")
    (tmp_path / "memory" / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 2000\n")
    assert memory.free() == 42000
