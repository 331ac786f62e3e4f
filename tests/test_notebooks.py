"""The lessons in notebooks/: each runs as a plain script, as `make notebooks` runs its cells."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

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
