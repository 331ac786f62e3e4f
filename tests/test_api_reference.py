"""The API reference: pdoc makes it of the public door, and finds nothing to complain about."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.slow
def test_it_is_made_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "docs/api.py", tmp_path],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    pages = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")]
    assert not re.findall(r"class=\"base\">[\w.]*\._\w+", "".join(pages))
    for page, name in {
        "t2t_repro": "Transformer",
        "t2t_repro/runs": "LoadedRun.translate",
        "t2t_repro/layers": "EncoderLayer",
        "t2t_repro/callbacks": "ExactResume",
        "t2t_repro/data": "text_dataset",
        "t2t_repro/training/losses": "padded_cross_entropy",
    }.items():
        assert f'id="{name}"' in (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        assert f'href="{page}.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
