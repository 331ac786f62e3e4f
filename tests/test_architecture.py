"""Imports point down only and in no circle, TensorFlow stays where it belongs, doors stay light."""

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "t2t_repro"

# From the ground up.
FLOORS = (
    {
        *("config", "registry", "errors", "files", "run_directory", "progress", "process"),
        *("schema", "page_policy", "fields", "stages", "imports"),
        "t2t_compat",
    },
    {"layers", "text"},
    {"corpora", "parsing"},
    {"problem"},  # names encoders, so it lies above text; light as the ground all the same
    {"models", "data"},
    {"training", "scoring"},
    {"decoding"},
    {"runs", "plan"},
    {"provenance"},
    {"interop", "export"},
    {"serving"},
    {"views"},
    {"study"},
    {"paper"},
    {"own_text", "callbacks"},
    {"distill"},  # goes in the stages of own_text
    {"cli"},  # what the programs share: it loads a user's package
    {"bin"},
    {"trainer"},  # the door
)
SIDEWAYS = {("training", "scoring")}
CATALOGUES = {
    "hparams": {"config", "registry"},
    "problems": {
        *("problem", "registry", "errors", "progress"),
        *("text", "corpora", "parsing", "scoring"),
    },
}
TENSORFLOW = {"tensorflow", "tensorflow_text", "tensorflow_datasets"}
TENSORFLOW_FOLDERS = {"data", "interop", "export"}
TENSORFLOW_FILES = {
    "t2t_repro/decoding/graph_search.py",
    "t2t_repro/text/graph.py",
    "t2t_repro/models/tensorflow_step.py",
    "t2t_repro/training/devices.py",
    "t2t_repro/training/distribution.py",
}
TENSORFLOW_WHEN_IT_RUNS = {  # only inside functions
    "t2t_repro/layers/replicas.py",  # asks for the replica that it runs in
    "t2t_repro/layers/kernels.py",  # has a kernel that takes half the time
    "t2t_repro/models/copies.py",  # names the devices of its strategies
    "t2t_repro/decoding/program.py",  # compiles for all shapes at once
    "t2t_repro/serving/models.py",  # calls what t2t-exporter wrote
    "t2t_repro/training/optimizers.py",  # has a kernel that takes half the time
    "problems/translate_wmt14.py",  # asks tensorflow-datasets for its lists of files
}
BEAM_SEARCH = "t2t_repro/decoding/beam_search.py"


def floor(unit: str) -> int:
    """The height of a unit; what has no floor, such as the public door, lies above all."""
    return next((i for i, units in enumerate(FLOORS) if unit in units), len(FLOORS))


def allowed(source: str, target: str) -> bool:
    """Whether a module of `source` may import one of `target`."""
    if target in CATALOGUES:
        return source == target
    if source in CATALOGUES:
        return target in CATALOGUES[source]
    on_the_ground = floor(source) == floor(target) == 0
    down = floor(target) < floor(source)
    return down or source == target or on_the_ground or (source, target) in SIDEWAYS


def imports(path: Path, package: list[str]) -> Iterator[tuple[str, bool, int]]:
    """Yields every name that a file imports, dotted; whether only when called; its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    later = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *filter(None, [node.module])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and "import_module" in vars(node.func).values():
            names = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
        else:
            continue
        for name in names:
            yield name, id(node) in later, node.lineno


def modules(root: Path) -> Iterator[tuple[Path, list[str], str]]:
    """Yields every file of the package and the catalogues, its package, and its own name.

    Not the public door, which reaches everything, lazily.
    """
    for path in sorted(p for top in (PACKAGE, *CATALOGUES) for p in (root / top).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        package = list(parts[:-1]) if parts[0] == PACKAGE else [PACKAGE, *parts[:-1]]
        if [*package, parts[-1]] != [PACKAGE, "__init__"]:
            yield path, package, parts[-1]


def circle(root: Path) -> list[str]:
    """Returns the modules of a circle of imports below `root`; [] if there is none."""
    files = {
        ".".join(package if name == "__init__" else [*package, name]): (path, package)
        for path, package, name in modules(root)
    }
    graph: dict[str, set[str]] = {}
    for module, (path, package) in files.items():
        graph[module] = set()
        for name, _, _ in imports(path, package):
            while name and name not in files:
                name = name.rpartition(".")[0]
            if name and not f"{module}.".startswith(f"{name}."):  # its own package's __init__
                graph[module].add(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def violations(root: Path) -> list[str]:
    """Returns what is wrong below `root`, each as "file:line: what"."""
    found = []
    for path, package, module in modules(root):
        file = path.relative_to(root).as_posix()
        source = [*package, module][1]
        program = source == "bin"
        tensorflow_home = source in TENSORFLOW_FOLDERS or file in TENSORFLOW_FILES
        lazily_at_home = program or file in TENSORFLOW_WHEN_IT_RUNS
        for name, later, line in imports(path, package):
            top, target, *_ = [*name.split("."), ""]
            if top in TENSORFLOW and not (tensorflow_home or lazily_at_home and later):
                found.append(f"{file}:{line}: {name} does not belong here")
            if top in {"keras", "numpy"} and (floor(source) == 0 or source == "problem"):
                found.append(f"{file}:{line}: {source} must stay light, without {name}")
            if top in CATALOGUES:
                found.append(f"{file}:{line}: only the registry loads {name}")
            if top == PACKAGE and target != "__version__" and not allowed(source, target):
                found.append(f"{file}:{line}: {source} must not import {name}")
            if file == BEAM_SEARCH and target == "models":
                found.append(f"{file}:{line}: beam search knows no model")
    return found


def assert_light(limit: float, command: list[str]) -> None:
    """Asserts that one of three runs stays below `limit`, and that it loads nothing heavy.

    The seconds are those of a processor, which other work on the machine does not lengthen.
    """
    for _ in range(3):
        before = os.times()
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        after = os.times()
        assert done.returncode == 0, done.stderr[-2000:]
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert not loaded & {"tensorflow", "tensorflow_text", "keras", "numpy", "jax"}
        seconds = sum(after[2:4]) - sum(before[2:4])  # of children
        if seconds < limit:
            return
    pytest.fail(f"{command} took {seconds:.2f} s")


def programs() -> list[str]:
    """The modules that are run as `python -m t2t_repro.bin.X`."""
    files = sorted((ROOT / PACKAGE / "bin").glob("*.py"))
    return [p.stem for p in files if "\nconsole = " in p.read_text(encoding="utf-8")]


def test_imports_point_down():
    assert violations(ROOT) == []


def test_there_is_no_circle():
    assert circle(ROOT) == []


def test_the_package_imports_in_a_moment_and_pulls_in_nothing_heavy():
    assert_light(0.2, ["-c", f"import {PACKAGE}"])  # with the interpreter's own start


@pytest.mark.parametrize(
    "command",
    [*((f"bin.{program}", "--help") for program in programs()), ("trainer", "--registry_help")],
    ids=" ".join,
)
def test_help_answers_within_a_second(command):
    module, flag = command
    assert_light(1.0, ["-m", f"{PACKAGE}.{module}", flag])
