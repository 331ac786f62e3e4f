"""The lessons in notebooks/: each runs as a plain script, as `make notebooks` runs its cells."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from t2t_repro.views import pictures

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "keras.md").read_text(encoding="utf-8").partition("## Three lessons")[2]
PICTURES = {  # what each lesson draws
    "paper_in_code": {"learning"},
    "your_own_text": set(),
    "inside_a_run": {"learning", "encoder-decoder", "encoder", "heads", "positions", "norms"},
}


def test_the_page_and_make_name_each_lesson():
    lessons = {
        path.stem for path in (ROOT / "notebooks").glob("*.py") if "# %%" in path.read_text("utf-8")
    }
    assert lessons == set(PICTURES)
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == lessons
    made = re.search(r"^LESSONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert set(made.split()) == lessons


@pytest.mark.parametrize(
    "more, label, loss",
    [({"plain_loss": 2.0}, "training", 2.0), ({}, "training (label smoothing 0.1)", 2.5)],
)
def test_the_training_loss_is_drawn_as_what_it_is(tmp_path, more, label, loss):
    rows = [
        {"kind": "train", "step": 10, "loss": 2.5, **more},
        {"kind": "eval", "step": 10, "loss": 2.1, "bleu": 3.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lesson = (ROOT / "notebooks" / "inside_a_run.py").read_text(encoding="utf-8")
    (cell,) = [each for each in lesson.split("# %%\n") if each.startswith("lines = [json.loads")]
    names = {"json": json, "pictures": pictures, "run_dir": tmp_path, "folder": tmp_path}
    exec(cell, names)
    training, dev = names["left"].lines
    assert (training.get_label(), list(training.get_ydata())) == (label, [loss])
    assert (dev.get_label(), list(dev.get_ydata())) == ("dev", [2.1])


@pytest.mark.slow
@pytest.mark.parametrize("lesson", PICTURES)
def test_a_lesson_runs(lesson, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "notebooks" / f"{lesson}.py"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    drawn = (tmp_path / "t2t_runs" / "lessons" / lesson).glob("*.png")
    assert {path.stem for path in drawn} == PICTURES[lesson]
