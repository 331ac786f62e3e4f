"""A disk that is full: one clear message, nothing lost, and the same command goes on afterwards."""

import pathlib
import re
import subprocess

import pytest
import small_jobs

from tests.hostile.conftest import used

ROOMY = 1 << 28
BEFORE = {  # what lies there under the names that are about to be written
    "decoder": {"out": "of another day\n", "out.jsonl": "{}\n"},
    "translate_all": {"translations/text": "of another day\n"},
}
SHARES = {"at once": 0.0, "in the middle": 0.5, "near the end": 0.9}


class Tmpfs:
    """A folder on a file system of its own, of a given size."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.file_limit = folder, 0
        self._mount("size=64k", "-t", "tmpfs", "tmpfs")

    def resize(self, size: int) -> None:
        self._mount(f"remount,size={max(4096, size)}")

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def _mount(self, options: str, *what: str) -> None:
        command = ["mount", "-o", options, *what, str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)


class Limited:
    """The same where nobody may mount: no file may grow beyond a size."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.file_limit = folder, 0

    def resize(self, size: int) -> None:
        self.file_limit = 0 if size == ROOMY else max(1, size // 20)

    def close(self) -> None:
        pass


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "to").mkdir()
    try:
        made = Tmpfs(tmp_path / "to")
    except (OSError, subprocess.CalledProcessError):
        made = Limited(tmp_path / "to")
    yield made
    made.close()


def one_message(failing):
    assert failing.wait(1) == 2, failing.said()
    errors = [line for line in failing.said().splitlines() if ": error: " in line]
    assert len(errors) == 1 and "Traceback" not in failing.said(), failing.said()
    assert re.search("No space left on device|File too large|of disk are needed", errors[0]), errors


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("program", small_jobs.JOBS)
def test_a_full_disk(prepared, straight, disk, tmp_path, program, share):
    to, end = disk.folder, straight(program)
    disk.resize(ROOMY)
    kept = {"mine": "kept\n"} | BEFORE.get(program, {})
    for name, text in kept.items():
        (to / name).parent.mkdir(exist_ok=True)
        (to / name).write_text(text)
    disk.resize(used(to) + int(SHARES[share] * end.bytes))
    failing = small_jobs.start(program, prepared, to, tmp_path / "log1", disk.file_limit)
    if failing.wait(300) or share != "near the end":  # some delete as much there as they need
        one_message(failing)
        for name, text in kept.items():
            assert (to / name).read_text() == text
        disk.resize(ROOMY)
        again = small_jobs.start(program, prepared, to, tmp_path / "log2")
        assert again.wait(300) == 0, again.said()
    found = small_jobs.contents(to)
    assert {name: found[name] for name in found if name not in kept or name in end.files} == (
        end.files
    )
    assert not [path for path in to.rglob("*") if "incomplete" in path.name]
