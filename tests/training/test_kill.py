"""A run that is killed with SIGKILL three times ends as one that never was: bit by bit.

benchmarks/kill_resume.py, which this runs, does it twenty times.
"""

import pathlib
import runpy

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
KILLS = 3
PHASES = {"starting", "stepping", "writing", "evaluating"}


def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    measure = runpy.run_path(str(ROOT / "benchmarks" / "kill_resume.py"))["measure"]
    found = measure(tmp_path, kills=KILLS, steps=40, every=4, seed=3)
    assert sum(found["phases"].values()) == KILLS and found["phases"].keys() <= PHASES
    assert found["arrays"] > 30 and found["arrays_that_differ"] == []
    assert found["metrics"] == 40 + 10 and found["metrics_equal"] and found["best_equal"]
