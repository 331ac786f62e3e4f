"""A kill or a full disk loses nothing: the same command ends with the same bytes."""

import re

import kill_programs
import pytest
import small_jobs

pytestmark = pytest.mark.slow
OLDER = {  # what lies under names that are about to be written
    "decoder": {"out": "of another day\n", "out.jsonl": "{}\n"},
    "translate_all": {"translations/text": "of another day\n"},
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What the programs of `small_jobs` read."""
    folder = tmp_path_factory.mktemp("prepared")
    small_jobs.prepare(folder)
    return folder


@pytest.mark.parametrize("program", kill_programs.PROGRAMS)
def test_killed_at_random(prepared, tmp_path, program):
    found = kill_programs.measure(prepared, tmp_path, program, kills=4, seed=11)
    assert found["kills"] == 4 and found["ends"] > 0 and found["files"] > 1
    assert found["files_that_differ"] == []


@pytest.mark.parametrize("program", small_jobs.JOBS)
def test_a_file_for_which_there_is_no_room(prepared, tmp_path, program):
    straight, to = tmp_path / "straight", tmp_path / "to"
    process = small_jobs.start(program, prepared, straight, tmp_path / "log0")
    assert process.wait(300) == 0, process.said()
    largest = max(path.stat().st_size for path in straight.rglob("*") if path.is_file())
    for name, text in OLDER.get(program, {}).items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_text(text)
    failing = small_jobs.start(program, prepared, to, tmp_path / "log1", largest // 2)
    assert failing.wait(300) == 2, failing.said()
    said = failing.said()
    assert len(re.findall(r"^\S+: error: ", said, re.M)) == 1, said  # TensorFlow logs some
    assert "Traceback" not in said
    for name, text in OLDER.get(program, {}).items():
        assert (to / name).read_text() == text
    again = small_jobs.start(program, prepared, to, tmp_path / "log2")
    assert again.wait(300) == 0, again.said()
    end = small_jobs.contents(straight)
    assert {name: digest for name, digest in small_jobs.contents(to).items() if name in end} == end
    assert not [path for path in to.rglob("*") if "incomplete" in path.name]
