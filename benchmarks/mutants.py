"""Break the package in many small places, and count how often its tests notice.

    python benchmarks/mutants.py --out=mutants.jsonl [--count=200] [--seed=1]

draws places by the seed, in proportion to the code of each folder: an operator, a comparison, a
constant or a statement. One at a time is changed in the working directory, which has to be a
checkout that nobody else uses (`git worktree add --detach DIR`), and the quick tests of its folder
run until the first failure, those first that bear its name or speak of what was changed. A mutant
that no test notices survives: look whether it changes anything at all. The same command goes on
where it stopped.
"""

import argparse
import ast
import collections
import contextlib
import importlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.context import ForkProcess
from typing import Any, NamedTuple

import pytest

FOLDERS = ("layers", "models", "training", "decoding", "data", "text", "interop", "scoring")
OPTIONS = ["-xq", "-n0", "--tb=no", "-pno:cacheprovider", "-ofaulthandler_timeout=300"]
OPTIONS += ["-ofaulthandler_exit_on_timeout=true"]  # a mutant that lets a test hang is noticed
_OPERATORS = {
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"},
    **{ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="},
    **{ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"},
    **{ast.And: "or", ast.Or: "and"},
}
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise)


class Mutant(NamedTuple):
    """A change: `old`, between two offsets of a file in UTF-8, becomes `new`."""

    file: str
    names: tuple[str, ...]  # of the classes and functions around it
    line: int
    start: int
    end: int
    kind: str
    old: str
    new: str


def mutants(path: pathlib.Path) -> Iterator[Mutant]:
    """Yields all the changes that can be made to a file, but those of what is said to readers."""
    source = path.read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]

    def offsets(node: Any) -> tuple[int, int]:
        """Where a node begins and ends."""
        begins = starts[node.lineno - 1] + node.col_offset
        return begins, starts[node.end_lineno - 1] + node.end_col_offset

    def between(left: ast.AST, operator: ast.AST, right: ast.AST) -> tuple[int, int, str]:
        """The change of the operator between two nodes, whose brackets stay."""
        at, end = offsets(left)[1], offsets(right)[0]
        gap = source[at:end].decode()
        return at, end, gap.replace(gap.strip("() \n\\"), _OPERATORS[type(operator)])

    for node, names in _code(ast.parse(source), ()):
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            kind, change = "operator", between(node.left, node.op, node.right)
        elif isinstance(node, ast.Compare):
            kind, change = "comparison", between(node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            kind, change = "comparison", between(node.values[0], node.op, node.values[1])
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            new = not node.value if isinstance(node.value, bool) else node.value + 1
            kind, change = "constant", (*offsets(node), str(new))
        elif isinstance(node, _STATEMENTS) and source[offsets(node)[0]] != ord('"'):
            kind, change = "statement", (*offsets(node), "pass")
        else:
            continue
        at, end, new = change
        old = source[at:end].decode()
        yield Mutant(str(path), names, node.lineno, at, end, kind, old, new)


def _code(node: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yields the nodes that compute, and the names around each: no types, no messages, no module's
    or class's constants."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        names = (*names, node.name)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Import):
                outer = isinstance(node, ast.Module | ast.ClassDef)
                if not outer or isinstance(child, ast.ClassDef | ast.FunctionDef):
                    yield child, names
                    yield from _code(child, names)


def drawn(count: int, seed: int) -> list[Mutant]:
    """Returns so many mutants."""
    folders = (pathlib.Path("t2t_repro", name) for name in FOLDERS)
    files = (file for folder in folders for file in sorted(folder.rglob("*.py")))
    return random.Random(seed).sample([one for file in files for one in mutants(file)], count)


def tests_of(mutant: Mutant) -> list[str]:
    """Returns the tests of a mutant's folder, those first that are the likeliest to notice it."""
    path, found = pathlib.Path(mutant.file), []
    for file in sorted(pathlib.Path("tests", path.parent.name).glob("test_*.py")):
        source = file.read_text()
        own = file.stem.startswith(f"test_{path.stem}")
        whole = 2 * own + (path.stem in _words(source))
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                named = len(_words(ast.get_source_segment(source, node)) & {*mutant.names})
                found.append((whole + named, f"{file}::{node.name}"))
    return [test for _, test in sorted(found, key=lambda one: -one[0])]


def _words(text: str | None) -> set[str]:
    return set(re.findall(r"\w+", text or ""))


def noticed_by(tests: list[str]) -> str:
    """Returns which of some tests fails first, or nothing.

    They run in a fork of this process, which has loaded TensorFlow for all of them.
    """
    with tempfile.TemporaryFile("w+") as out:
        child = ForkProcess(target=_test, args=(tests, out.fileno()))
        child.start()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        os.killpg(child.pid, signal.SIGKILL)  # what it has left behind
        child.join()
        out.seek(0)
        failed = [line for line in out if line.startswith(("FAILED", "ERROR"))]
    passed = child.exitcode in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    return "" if passed else "".join(failed).strip() or f"ended with {child.exitcode}"


def _test(tests: list[str], out: int) -> None:
    os.setpgid(0, 0)
    os.dup2(out, 1)
    os._exit(pytest.main([*OPTIONS, f"--basetemp={tempfile.tempdir}/tests", *tests]))


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Changes the file while it lasts."""
    path = pathlib.Path(mutant.file)
    source, made = path.read_bytes(), path.stat()
    path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
    try:
        yield
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))  # its .pyc is true again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    subprocess.run(["git", "diff", "--quiet"], check=True)  # or a kill has left a mutant behind
    rows = [json.loads(row) for row in args.out.open()] if args.out.exists() else []
    out = args.out.open("a", buffering=1)
    os.environ["PYTHONPATH"] = sys.path[0] = os.getcwd()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.tempdir = tempfile.mkdtemp()
    importlib.import_module("keras")
    for mutant in drawn(args.count, args.seed)[len(rows) :]:
        with applied(mutant):
            rows.append(mutant._asdict() | {"by": noticed_by(tests_of(mutant))})
        out.write(json.dumps(rows[-1]) + "\n")
        print(len(rows), mutant.file, mutant.line, mutant.kind, rows[-1]["by"] or "-", flush=True)
    groups = collections.defaultdict(list)
    for row in rows:
        for name in (row["kind"], row["file"].split("/")[1], "all"):
            groups[name].append(bool(row["by"]))
    for name, noticed in groups.items():
        print(f"{name}: {sum(noticed)} of {len(noticed)}")


if __name__ == "__main__":
    main()
