"""A run that is killed with SIGKILL ends as one that never was: bit by bit.

benchmarks/kill_resume.py, which this runs, does it twenty times.
"""

import functools
import os
import pathlib
import runpy
import subprocess

import pytest

from tests import forks

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
PHASES = {"starting", "stepping", "writing", "evaluating"}


def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path, monkeypatch):
    start = functools.partial(forks.Popen, env=os.environ | forks.OWN)
    monkeypatch.setattr(subprocess, "Popen", start)
    measure = runpy.run_path(str(ROOT / "benchmarks" / "kill_resume.py"))["measure"]
    found = measure(tmp_path, kills=3, steps=24, every=4, seed=3)
    assert sum(found["phases"].values()) == 3 and found["phases"].keys() <= PHASES
    assert found["arrays"] > 30 and found["arrays_that_differ"] == []
    assert found["metrics"] == 24 + 6 and found["metrics_equal"] and found["best_equal"]
