import os

import pytest

from t2t_repro.errors import UserError
from t2t_repro.files import check_outputs, check_room


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a file `in`, and names that lead to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to("in")
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to("folder")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "input"),
    [
        *(("in", "in"), ("./in", "in"), ("link", "in"), ("in", "link"), ("hard", "in")),
        *(("folder/../in", "in"), ("new", "dangling"), ("other/new", "folder/new")),
        ("folder/new", "other"),
    ],
)
def test_what_is_one_file(here, output, input):
    with pytest.raises(UserError, match="--out .*--in"):
        check_outputs({"--none": None, "--out": output}, {"--nothing": None, "--in": input})
    if input != "other":
        for outputs in ({"--a": input, "--b": output}, {"--a": output, "--b": input}):
            with pytest.raises(UserError, match="--b"):
                check_outputs(outputs, {})


@pytest.mark.parametrize("output", ["folder", "other"])
def test_a_folder_where_a_file_is_to_be(here, output):
    with pytest.raises(UserError, match=f"--out .*{output}"):
        check_outputs({"--out": output}, {})
    check_outputs({"--out": output}, {}, folders=True)


def test_a_folder_that_takes_no_file_is_named(here):
    check_room("new/folder")
    check_room("folder")
    assert os.listdir("folder") == [] and not os.path.exists("new")
    with pytest.raises(FileExistsError):
        check_room("in")
    with pytest.raises(OSError) as refused:
        check_room("/proc/self")  # for root neither
    assert refused.value.filename == "/proc/self"


def test_what_destroys_nothing(here):
    os.mkfifo(here / "pipe")
    outputs = {"a": "new", "b": "folder/in", "c": "pipe", "d": "pipe", "e": os.devnull}
    check_outputs(outputs | {"f": os.devnull}, {"--in": "in"})
