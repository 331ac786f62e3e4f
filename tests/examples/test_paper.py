"""The scripts of examples/paper, each with tiny settings: a picture, and finite numbers."""

import json
import pathlib
import runpy
import sys

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "paper"

# By script: flags, and the rows under each name of its numbers.
CASES = {
    "order": ("--words=6 --draws=2", {"rows": 8 * 2}),
    "heads": ("--steps=2 --seeds=1 --heads 1 2 --lengths 2 3", {"rows": 2 * 2}),
    "positions": ("--steps=1 --seeds=1 --lengths 4 17", {"linear": 5, "copying": 2 * 2}),
    "scaling": (
        "--steps=1 --seeds=2 --widths 8 64 --trained_widths 4",
        {"start": 3 * 2, "losses": 3 * 2},
    ),
    "additive_cost": ("--lengths 16", {"rows": 2}),
    "path_length": (
        "--steps=1 --seeds=1 --distances 8 --lengths 32 64 --widths 8 16 --middle=32",
        {"rows": 4, "times": 5 * 4},
    ),
    "residuals": ("--steps=1 --seeds=1 --layers=2", {"rows": 3}),
    "warmup": ("--layers=1 --steps=1 --seeds=1 --warmups 5", {"rows": 2}),
}
QUICK = {"order"}  # the others train


def test_each_script_has_a_case():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*CASES, "drawing"}


@pytest.mark.parametrize(
    "name",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_a_script_draws_and_writes_what_it_measured(name, tmp_path, monkeypatch):
    flags, expected = CASES[name]
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [name, *flags.split(), f"--output_dir={tmp_path}"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((tmp_path / f"{name}.json").read_text())
    assert {key: len(rows) for key, rows in found.items()} == expected
    for rows in found.values():
        assert len({tuple(row) for row in rows}) == 1  # all have the same columns
        values = [v for row in rows for v in row.values() if not isinstance(v, str)]
        assert len(values) >= 2 * len(rows) and np.isfinite(values).all()
