"""Break the package in many small places, and count how often its tests notice.

    python benchmarks/mutants.py --out=mutants.jsonl [--count=200] [--seed=1] [--checkout=DIR]

draws places by the seed, in proportion to the code of each folder: an operator, a comparison, a
constant or a statement. One at a time is changed in the files of DIR, which has to be a checkout
that nobody else uses (`git worktree add --detach DIR`), and the quick tests of the module's folder
run until the first failure, those of its own name first. A mutant that no test notices survives:
look whether it changes anything at all. The same command goes on where it stopped.
"""

import argparse
import ast
import collections
import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

FOLDERS = ("layers", "models", "training", "decoding", "data", "text", "interop", "scoring")
LONGEST = 900  # seconds for the tests of one mutant; one that makes them hang is noticed
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
    line: int
    start: int
    end: int
    kind: str
    old: str
    new: str


def mutants(path: pathlib.Path, root: pathlib.Path) -> Iterator[Mutant]:
    """Yields all the changes that can be made to a file, but those of what is said to readers."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offsets(node: Any) -> tuple[int, int]:
        """Where a node begins and ends."""
        begins = starts[node.lineno - 1] + node.col_offset
        return begins, starts[node.end_lineno - 1] + node.end_col_offset

    def mutant(kind: str, node: Any, at: int, end: int, new: str) -> Mutant:
        old = source[at:end].decode()
        return Mutant(str(path.relative_to(root)), node.lineno, at, end, kind, old, new)

    def between(kind: str, left: ast.AST, operator: ast.AST, right: ast.AST) -> Mutant:
        """Of the operator between two nodes, whose brackets stay."""
        at, end = offsets(left)[1], offsets(right)[0]
        gap = source[at:end].decode()
        new = gap.replace(gap.strip("() \n\\"), _OPERATORS[type(operator)])
        return mutant(kind, left, at, end, new)

    for node in _code(ast.parse(source)):
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            yield between("operator", node.left, node.op, node.right)
        elif isinstance(node, ast.Compare):
            yield between("comparison", node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            yield between("comparison", node.values[0], node.op, node.values[1])
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            new = not node.value if isinstance(node.value, bool) else node.value + 1
            yield mutant("constant", node, *offsets(node), str(new))
        elif isinstance(node, _STATEMENTS) and not _is_text(node):
            yield mutant("statement", node, *offsets(node), "pass")


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that compute: no types, no messages, no module's or class's constants."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Import):
                outer = isinstance(node, ast.Module | ast.ClassDef)
                if not outer or isinstance(child, ast.ClassDef | ast.FunctionDef):
                    yield child
                    yield from _code(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def drawn(root: pathlib.Path, count: int, seed: int) -> list[Mutant]:
    """Returns so many mutants of a checkout."""
    files = [f for name in FOLDERS for f in sorted((root / "t2t_repro" / name).rglob("*.py"))]
    found = [mutant for file in files for mutant in mutants(file, root)]
    return random.Random(seed).sample(found, count)


def is_noticed(mutant: Mutant, root: pathlib.Path) -> bool:
    """Returns whether a test of the folder fails, or hangs."""
    path = root / mutant.file
    source = path.read_bytes()
    tests = root / "tests" / path.parent.name
    own = sorted(tests.glob(f"test_{path.stem}*.py"))
    files = [*own, *(file for file in sorted(tests.glob("test_*.py")) if file not in own)]
    command = [sys.executable, "-m", "pytest", "-xq", "-n", "0", "-p", "no:cacheprovider", *files]
    path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
    try:
        made = subprocess.run(command, cwd=root, capture_output=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_bytes(source)
    return made.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkout", type=pathlib.Path, default=pathlib.Path.cwd())
    args = parser.parse_args()
    done = args.out.read_text().splitlines() if args.out.exists() else []
    for mutant in drawn(args.checkout, args.count, args.seed)[len(done) :]:
        start = time.monotonic()
        row = mutant._asdict() | {"noticed": is_noticed(mutant, args.checkout)}
        row["seconds"] = round(time.monotonic() - start)
        done.append(json.dumps(row))
        with open(args.out, "a") as file:
            file.write(done[-1] + "\n")
        print(f"{len(done)}/{args.count}", mutant.file, mutant.line, mutant.kind, row["noticed"])
    noticed: collections.Counter[str] = collections.Counter()
    whole: collections.Counter[str] = collections.Counter()
    for row in map(json.loads, done):
        for name in (row["kind"], pathlib.Path(row["file"]).parent.name, "all"):
            whole[name] += 1
            noticed[name] += row["noticed"]
    for name, count in whole.items():
        print(f"{name}: {noticed[name]} of {count}")


if __name__ == "__main__":
    main()
