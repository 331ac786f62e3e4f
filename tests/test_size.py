"""The code lines of each folder stay within its budget. The numbers may only go down.

A code line holds a token that is no comment and no docstring.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "benchmarks": 1587,
    "examples": 621,
    "hparams": 642,
    "problems": 822,
    "t2t_repro": 2586,
    "t2t_repro/bin": 1555,
    "t2t_repro/callbacks": 259,
    "t2t_repro/corpora": 1863,
    "t2t_repro/data": 1458,
    "t2t_repro/decoding": 2072,
    "t2t_repro/distill": 308,
    "t2t_repro/export": 1554,
    "t2t_repro/interop": 1272,
    "t2t_repro/layers": 1758,
    "t2t_repro/models": 1119,
    "t2t_repro/own_text": 493,
    "t2t_repro/paper": 389,
    "t2t_repro/parsing": 711,
    "t2t_repro/scoring": 273,
    "t2t_repro/serving": 770,
    "t2t_repro/study": 871,
    "t2t_repro/text": 1161,
    "t2t_repro/training": 2537,
    "t2t_repro/views": 895,
    "tests": 19957,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Returns how many lines of a file are code."""
    numbered = enumerate(text.split("\n"), 1)
    lines = {number for number, line in numbered if line.strip() and line.lstrip()[0] != "#"}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr):  # with its blank lines
            lines.update(range(node.lineno, node.end_lineno))
    return len(lines - docstrings)


def sizes() -> dict[str, int]:
    """Returns the code lines by folder; of the package each folder of its own, below it all."""
    found: dict[str, int] = {}
    for top in sorted({folder.split("/")[0] for folder in BUDGETS}):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            folder = "/".join(parts[:2]) if top == "t2t_repro" and len(parts) > 2 else top
            found[folder] = found.get(folder, 0) + code_lines(path.read_text(encoding="utf-8"))
    return found


def test_each_folder_is_within_its_budget():
    found = sizes()
    assert {name: size for name, size in found.items() if size > BUDGETS.get(name, 0)} == {}
