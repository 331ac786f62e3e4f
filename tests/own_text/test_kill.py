"""t2t-own-text itself, killed on the way: the same command ends as if it had not been."""

import json
import random
import time

import pytest

from tests.programs import finish, kill_and_finish

pytestmark = pytest.mark.slow
TINY = "num_hidden_layers=1,hidden_size=16,filter_size=24,num_heads=2,batch_size=256"


COMMAND = [
    *("t2t_repro.bin.own_text", "--output_dir=out", "--train_steps=60"),
    *("--source=a.en", "--target=a.de"),
    *("--hparams_set=transformer_own_text_small", f"--hparams={TINY}"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with 400 pairs."""
    folder = tmp_path_factory.mktemp("own_text")
    draw = random.Random(3)
    words = {f"{a}{b}{c}": f"{c}{b}{a}" for a in "klmnr" for b in "aeiou" for c in "pst"}
    lines = [draw.choices(list(words), k=draw.randint(3, 9)) for _ in range(400)]
    (folder / "a.en").write_text("".join(" ".join(line) + ".\n" for line in lines))
    text = "".join(" ".join(map(words.__getitem__, line)) + ".\n" for line in lines)
    (folder / "a.de").write_text(text)
    return folder


def record_of(folder):
    found = json.loads((folder / "out" / "own-text.json").read_text())
    files = {name: stage["files"] for name, stage in found["stages"].items()}
    del files["plan"]  # it holds times
    del files["export_saved_model"]  # a SavedModel's bytes are TensorFlow's
    return files, found["stages"]["test"]["found"], found["inputs"]


def test_killed_and_stopped_it_ends_with_the_same_record(folder):
    began = time.monotonic()
    finish(folder, COMMAND)
    seconds = time.monotonic() - began
    straight = record_of(folder)
    (folder / "out").rename(folder / "straight")  # what is made says in which folder
    assert "done before" in kill_and_finish(folder, COMMAND, seconds)
    assert record_of(folder) == straight
