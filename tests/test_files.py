import os
import subprocess
import sys

import pytest

from t2t_repro import files
from t2t_repro.errors import UserError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("mode", "content"), [("w", "ä\u2028\nb\n"), ("wb", b"\xff\r\n")])
def test_a_file_appears_when_it_is_complete_and_a_failure_leaves_the_old_one(
    tmp_path, mode, content
):
    path = tmp_path / "new" / "file"
    with files.writing(path, mode) as file:
        file.write(content)
        assert names(path.parent) == ["file.incomplete"]
    expected = content if mode == "wb" else content.encode()
    with pytest.raises(KeyboardInterrupt), files.writing(path) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert names(path.parent) == ["file"] and path.read_bytes() == expected
    with pytest.raises(IsADirectoryError), files.writing(tmp_path):
        raise AssertionError("the work was done")


def test_a_table_of_named_values_or_of_lists(tmp_path):
    path = tmp_path / "s.csv"
    files.write_csv(path, [{"id": 1, "reason": "ä, b", "x": 0.1 + 0.2}])
    assert path.read_bytes() == 'id,reason,x\n1,"ä, b",0.30000000000000004\n'.encode()
    files.write_csv(path, [["a", 5], [None, 1 / 3], ["x\ny", float("inf")]], ".6g")
    assert path.read_bytes() == b'a,5\n,0.333333\n"x\ny",inf\n'
    files.write_csv(path, [])
    assert path.read_bytes() == b"" and names(tmp_path) == ["s.csv"]


def test_a_folder_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "folder"
    for _ in range(2):  # the second time it is there, and empty
        with files.writing_folder(path) as folder:
            (folder / "a").touch()
            assert not path.exists() or names(path) == []
        assert names(path) == ["a"] and names(path.parent) == ["folder"]
        (path / "a").unlink()
    with pytest.raises(UserError):
        files.check_new_folder(path.parent)
    with pytest.raises(KeyboardInterrupt), files.writing_folder(tmp_path / "half") as folder:
        (folder / "a").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == ["new"]


HOLDER = """
import sys, time
from t2t_repro import files
with files.locked(sys.argv[1], print):
    print("alone", flush=True)
    time.sleep(60)
"""


def test_a_second_process_waits_until_the_first_is_gone(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        first.stdout.readline()
        # As kill -9: nothing is cleaned up.
        with files.locked(tmp_path / ".", lambda line: first.kill()):
            assert first.wait() < 0
    assert names(tmp_path) == []


@pytest.mark.parametrize(("name", "end"), [("link", "folder/file"), ("dangling", "folder/new")])
def test_a_link_stays_one(tmp_path, name, end):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("before")
    (tmp_path / "second").symlink_to(end)
    (tmp_path / name).symlink_to("second")
    with files.writing(tmp_path / name) as file:
        assert (tmp_path / "folder" / f"{os.path.basename(end)}.incomplete").exists()
        file.write("after")
    assert os.readlink(tmp_path / name) == "second" and (tmp_path / end).read_text() == "after"
    assert names(tmp_path) == sorted(["folder", name, "second"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a file `in`, and names that lead to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "folder").mkdir()
    for link, to in {"link": "in", "dangling": "new", "other": "folder"}.items():
        (tmp_path / link).symlink_to(to)
    return tmp_path


@pytest.mark.parametrize(
    ("output", "input"),
    [("./in", "in"), ("link", "in"), ("new", "dangling"), ("other/new", "folder/new")],
)
def test_what_is_one_file(here, output, input):
    with pytest.raises(UserError, match="--out .*--in"):
        files.check_outputs({"--none": None, "--out": output}, {"--nothing": None, "--in": input})
    with pytest.raises(UserError, match="--b .*--a"):
        files.check_outputs({"--a": output, "--b": input}, {})


def test_what_passes_through_is_written_to_and_destroys_nothing(here):
    os.mkfifo(here / "pipe")
    (here / "to_pipe").symlink_to("pipe")
    for name in ("pipe", "to_pipe"):
        reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
        with files.writing(name) as file:
            file.write("ä\n")
        assert os.read(reader, 100) == "ä\n".encode()
        os.close(reader)
    before = os.stat(os.devnull).st_ino
    files.write_text_atomic(os.devnull, "x")
    assert before == os.stat(os.devnull).st_ino
    assert not [name for name in os.listdir(here) if name.endswith(files.INCOMPLETE)]
    outputs = {"a": "new", "b": "folder/in", "c": "pipe", "d": "pipe"}
    files.check_outputs(outputs, {"--in": "in"})


def test_what_is_there_comes_by_step_and_what_is_new_as_it_appears(make_clock):
    there = {30: "c", 10: "a", 20: "b"}
    clock = make_clock(lambda naps: there.update({40: "d", 5: "old"}) if naps == 2 else None)
    found = files.appearing(lambda: there, min_steps=15, wait_minutes=0.5)
    assert [next(found), next(found), next(found)] == ["b", "c", "d"]
    clock.now += 1000  # what the caller takes for an item does not count
    assert list(found) == []
    assert clock.naps == 2 + 3
