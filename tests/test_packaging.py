"""What is shipped: the catalogues inside the package, nothing under a name that is not ours."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ["t2t_repro", "hparams", "problems", "setup.py", "pyproject.toml", "MANIFEST.in"]
SOURCES += ["examples", "requirements.txt", "README.md", "LICENSE", "Makefile", ".ci"]
ASK = """
import sys, t2t_repro
assert t2t_repro.get_hparams("transformer_base").hidden_size == 512
assert t2t_repro.get_problem("algorithmic_reverse_nlplike8k") is not None
print(t2t_repro.__file__)
"""


def modules(folder: Path) -> set[str]:
    """The Python files below a folder, and the pages that they read."""
    paths = [path for kind in ("*.py", "*.html", "*.md", "*.mjs") for path in folder.rglob(kind)]
    return {path.relative_to(folder).as_posix() for path in paths}


def setup_py(source: Path, *arguments: str) -> None:
    command = [sys.executable, "setup.py", "--quiet", *arguments]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, so that a build leaves nothing in the real one."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def installed(checkout, tmp_path_factory):
    """The tree that a wheel unpacks into site-packages."""
    folder = tmp_path_factory.mktemp("installed")
    setup_py(checkout, "build_py", f"--build-lib={folder}")
    return folder


def test_a_wheel_holds_the_package_and_nothing_else(checkout, installed):
    places = {"t2t_repro": "", "hparams": "t2t_repro/", "problems": "t2t_repro/"}
    expected = {
        f"{inside}{top}/{name}"
        for top, inside in places.items()
        for name in modules(checkout / top)
    }
    assert modules(installed) == expected


def test_a_source_archive_builds_the_same_wheel(checkout, installed, tmp_path):
    setup_py(checkout, "sdist", f"--dist-dir={tmp_path}")
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path)  # tarfile's filters begin with Python 3.11.4
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    setup_py(unpacked, "build_py", f"--build-lib={tmp_path / 'built'}")
    assert modules(tmp_path / "built") == modules(installed)
    assert (unpacked / "LICENSE").is_file()
    assert (unpacked / "examples" / "paper" / "order.py").is_file()


@pytest.mark.parametrize("where", ["checkout", "installed"])
@pytest.mark.parametrize("stranger_first", [False, True])
def test_the_catalogues_are_ours_whoever_else_is_installed(
    request, tmp_path, where, stranger_first
):
    """Others have a top-level `hparams` and `problems` on the public index, too."""
    for name in ("hparams", "problems"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger')")
    home = request.getfixturevalue(where)
    path = [str(tmp_path), str(home)] if stranger_first else [str(home), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(home / "t2t_repro" / "__init__.py")


def test_every_program_has_a_console_script(checkout):
    setup_py(checkout, "egg_info")
    (egg_info,) = checkout.glob("*.egg-info")
    scripts = Distribution.at(egg_info).entry_points.select(group="console_scripts")
    assert {"t2t-trainer", "t2t-datagen", "t2t-decoder", "t2t-eval"} <= set(scripts.names)
    files = (ROOT / "t2t_repro" / "bin").glob("*.py")
    programs = [p for p in files if "\nconsole = " in p.read_text()]
    assert {script.module for script in scripts} == {f"t2t_repro.bin.{p.stem}" for p in programs}
