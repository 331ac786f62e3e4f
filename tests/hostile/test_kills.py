"""Programs that are killed at random moments end, by the same command, as if they had not been.

benchmarks/kill_programs.py does it twenty times, and kill_resume.py to the trainer.
"""

import kill_programs
import pytest


@pytest.mark.parametrize("program", kill_programs.PROGRAMS)
def test_killed_at_random(prepared, tmp_path, program):
    found = kill_programs.measure(prepared, tmp_path, program, kills=5, seed=11)
    assert found["kills"] == 5 and found["ends"] > 0 and found["files"] > 1
    assert found["files_that_differ"] == []
