import os
import re

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.outputs import check_outputs, check_room
from t2t_repro.run_directory import RunConfig, RunDirectory


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a file `in`, names that lead to it, and a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "hard").hardlink_to("in")
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to("folder")
    (tmp_path / "run" / "checkpoints" / "ckpt-6").mkdir(parents=True)
    (tmp_path / "run" / "run.json").touch()
    (tmp_path / "alone" / "ckpt-8").mkdir(parents=True)
    (tmp_path / "alone" / "ckpt-8" / "state.json").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("output", "input", "received"),
    [
        ("in", "in", "in for both. Name another."),
        ("./in", "in", "./in and in, which is the same."),
        ("link", "in", "link and in, which is the same."),
        ("in", "link", "in and link, which is the same."),
        ("hard", "in", "hard and in, which is the same."),
        ("folder/../in", "in", "which is the same."),
        ("new", "dangling", "new and dangling, which is the same."),
        ("other/new", "folder/new", "other/new and folder/new, which is the same."),
        ("folder/new", "other", "folder/new and other, which is its folder."),
        ("a", "a.incomplete", "a and a.incomplete, while a.incomplete lies beside it as it grows"),
        ("a", "a.incomplete.json", "while a.incomplete.json lies beside it as it grows."),
    ],
)
def test_what_is_one_file(here, output, input, received):
    message = f"Expected --out to be another file than --in. Received: .*{re.escape(received)}"
    with pytest.raises(UserError, match=message):
        check_outputs({"--none": None, "--out": output}, {"--nothing": None, "--in": input})
    if input != "other":
        with pytest.raises(UserError, match="--b"):
            check_outputs({"--a": input, "--b": output}, {})
        with pytest.raises(UserError, match="--b"):
            check_outputs({"--a": output, "--b": input}, {})


@pytest.mark.parametrize("name", ["vocab.x.32768.subwords", "x-train-00000-of-00010"])
def test_data_are_no_outputs(here, name):
    check_outputs({"--out": name}, {})
    (here / name).touch()
    (here / "short").symlink_to(name)
    for path in (name, "short"):
        with pytest.raises(UserError, match=f"Received: {path}, which by its name is data of a"):
            check_outputs({"--out": path}, {})


@pytest.mark.parametrize(
    "output", ["run/run.json", "run/metrics.jsonl", "run/vocab.x", "run/checkpoints/ckpt-6/x"]
)
def test_the_files_of_a_run(here, output):
    for path in (output, f"folder/../{output}"):
        message = f"Expected --out to be a file of your own. Received: .*, which the run {here}/run"
        with pytest.raises(UserError, match=message):
            check_outputs({"--out": path}, {})
    with pytest.raises(UserError, match="8"):
        check_outputs({"--out": "alone/ckpt-8/state.json"}, {})


def test_a_vocabulary_of_a_run_by_whatever_name(here):
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test"),
        problem="p",
        data_dir="d",
        version="0",
    )
    (here / "mine").write_text("a\n")
    RunDirectory("whole").begin(config, [], ["mine"])
    with pytest.raises(UserError, match="--out"):
        check_outputs({"--out": "whole/mine"}, {})
    check_outputs({"--out": "whole/other.txt"}, {})


@pytest.mark.parametrize("output", ["folder", "other", "run"])
def test_a_folder_where_a_file_is_to_be(here, output):
    with pytest.raises(UserError, match=f"--out to be a file. Received: the folder {output}. Name"):
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
    outputs = {"a": "new", "b": "run/bleu.json", "c": "folder/in", "d": "pipe", "e": "pipe"}
    check_outputs(outputs | {"f": os.devnull, "g": os.devnull}, {"--in": "in", "--folder": "alone"})
