"""The same command twice at once: one clear message, nothing lost, and the same end."""

import pytest
import small_jobs


@pytest.mark.parametrize("program", small_jobs.JOBS)
def test_two_at_once(prepared, straight, tmp_path, program):
    to = tmp_path / "to"
    two = [small_jobs.start(program, prepared, to, tmp_path / f"log{n}") for n in (1, 2)]
    codes = [process.wait(300) for process in two]
    said = [process.said() for process in two]
    assert 0 in codes and set(codes) <= {0, 2}, said
    for code, text in zip(codes, said, strict=True):
        assert "Traceback" not in text, text
        errors = [line for line in text.splitlines() if ": error: " in line]
        assert len(errors) == (code == 2), text
        assert all("Expected" in line and "Received" in line for line in errors), errors
    assert small_jobs.contents(to) == straight(program).files
    assert not [path for path in to.rglob("*") if "incomplete" in path.name]
    last = small_jobs.start(program, prepared, to, tmp_path / "log3")
    assert last.wait(300) == 0 or "which holds" in last.said() or "no checkpoint of" in last.said()
    assert small_jobs.contents(to) == straight(program).files
