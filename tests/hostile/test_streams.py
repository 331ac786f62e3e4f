"""Closed, full and narrow streams: at most one line, and the right exit code."""

import os
import pathlib
import subprocess
import sys

import pytest

from t2t_repro.decoding.translate import interact

TREE = "(S (NP (DT das) (NN Tür„)) (VP (VB läuft)))"
ROOT = pathlib.Path(__file__).parents[2]
MODULES = sorted((ROOT / "t2t_repro" / "bin").glob("*.py"))
PROGRAMS = [path.stem for path in MODULES if "\nconsole = " in path.read_text()]
FEW_LETTERS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]
COMMANDS = {
    "bleu": "--translation=text --reference=text",
    "score_trees": "--gold=gold --predicted=other",
}


@pytest.fixture
def shell(tmp_path):
    """Runs a line of a shell in a folder with texts: shell(program, flags, redirections)."""
    (tmp_path / "text").write_text("Über Straßen ☃ gehen wir heim .\n", encoding="utf-8")
    (tmp_path / "gold").write_text(TREE + "\n", encoding="utf-8")
    (tmp_path / "other").write_text(TREE.replace("VP", "NP") + "\n", encoding="utf-8")

    def run(program, redirections="", **environment):
        line = f"{sys.executable} -m t2t_repro.bin.{program} {COMMANDS[program]} {redirections}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        return subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, timeout=100
        )

    return run


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.parametrize(
    ("redirections", "code"),
    [
        (">&-", 0),
        ("2>&-", 0),
        ("<&- >&- 2>&-", 0),
        (">/dev/full", 2),
        (">/dev/full 2>/dev/full", 2),
    ],
)
def test_streams_that_take_nothing(shell, program, redirections, code):
    done = shell(program, redirections)
    assert done.returncode == code, done.stderr
    if redirections == ">/dev/full":
        assert done.stderr.count(b"\n") == 1 and b"error: No space left on device" in done.stderr
    else:
        assert done.stderr == b""


def test_an_error_with_stderr_full(shell):
    assert shell("bleu", "--min_steps=x 2>/dev/full").returncode == 2


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.parametrize("environment", FEW_LETTERS, ids=str)
def test_terminals_of_few_letters(shell, program, environment):
    done = shell(program, **environment)
    assert done.returncode == 0 and done.stderr == b"", done.stderr


@pytest.mark.parametrize("environment", FEW_LETTERS, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_error_on_a_terminal_of_few_letters(program, environment):
    command = [sys.executable, "-m", f"t2t_repro.bin.{program}", "--Tür=☃"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=100)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr
    assert b"error: Unknown flag. Received: '--T" in done.stderr


def test_what_is_typed_is_not_utf8():
    typed, said = iter(["ab\udcff", "q"]), []
    interact(None, lambda prompt: next(typed), said.append)
    assert said[1:] == ["Expected text in UTF-8. Received: 'ab\\udcff'. Type it again."]
