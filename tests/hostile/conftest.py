"""What hostile cases share: a small run, the programs as a shell calls them, and the verdict."""

import dataclasses
import importlib
import pathlib
import shutil
import sys
import traceback

import pytest
import small_jobs

from t2t_repro import registry, user_code

PROBLEM = "algorithmic_reverse_binary40_test"
HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Marks all that stands here as slow: it is much, and what it guards rarely breaks."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code (None: a traceback) and what it printed."""

    code: int | None
    out: str
    err: str


@pytest.fixture
def call(capfd, monkeypatch):
    """Returns a function that runs a program in this process: call("show", "RUN", ...)."""

    def run(program: str, *flags: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", [f"t2t-{program}", *flags])
        capfd.readouterr()
        code: int | None = 0
        try:
            importlib.import_module(f"t2t_repro.bin.{program}").console()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception:
            code = None
            traceback.print_exc()
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def refused():
    """Returns a function that checks a refusal: exit code 2 and one line that says all."""

    def check(outcome: Outcome, *parts: str) -> None:
        assert outcome.code == 2, outcome.err
        lines = [line for line in outcome.err.splitlines() if ": error: " in line]
        assert len(lines) == 1, outcome.err
        for part in parts:
            assert part in lines[0], lines[0]

    return check


@pytest.fixture
def orderly():
    """Returns a function that checks the end of a program: done, or refused in one line."""

    def check(outcome: Outcome) -> None:
        assert outcome.code in (0, 2), outcome.err
        errors = [line for line in outcome.err.splitlines() if ": error: " in line]
        assert len(errors) == (outcome.code == 2), outcome.err
        assert all(len(line) < 1000 for line in errors), errors

    return check


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> pathlib.Path:
    """A folder with data and a run of six steps: three checkpoints, the two best, metrics."""
    from t2t_repro.bin import trainer

    folder = tmp_path_factory.mktemp("trained")
    flags = [
        *(f"--problem={PROBLEM}", "--hparams_set=transformer_test", "--generate_data"),
        *(f"--data_dir={folder / 'data'}", f"--output_dir={folder / 'run'}", "--train_steps=6"),
        *("--hparams=num_hidden_layers=1,batch_size=256", "--local_eval_frequency=2"),
        *("--eval_steps=1", "--log_step_count_steps=2", "--keep_best=2", "--samples_every=0"),
    ]
    argv, sys.argv = sys.argv, ["t2t-trainer", *flags]
    try:
        trainer.console()
    finally:
        sys.argv = argv
    return folder


@pytest.fixture
def run(trained, tmp_path) -> pathlib.Path:
    """A copy of that run, to break."""
    return pathlib.Path(shutil.copytree(trained / "run", tmp_path / "run"))


TOP = """from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Text2TextProblem
from t2t_repro.registry import get_hparams, register_hparams, register_problem

class Odd:
    def __repr__(self):
        raise ValueError("no")

class Broken(Exception):
    def __str__(self):
        raise ValueError("no")

"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package and returns (its folder, the place of the line that says # here)."""
    registry.list_problems(), registry.list_hparams()  # the catalogues are loaded
    monkeypatch.setattr(registry, "_PROBLEMS", dict(registry._PROBLEMS))
    monkeypatch.setattr(registry, "_HPARAMS", dict(registry._HPARAMS))
    monkeypatch.setattr(user_code, "_PLACES", set())

    def write(text, name="package"):
        folder = tmp_path / name
        folder.mkdir()
        file = folder / "__init__.py"
        file.write_text(TOP + text)
        lines = (TOP + text).split("\n")
        here = [number for number, line in enumerate(lines, 1) if line.endswith("# here")]
        return folder, f"{file} line {here[0]}" if here else str(file)

    yield write
    for name in [name for name in sys.modules if name.startswith(registry.USR_DIR_PREFIX)]:
        del sys.modules[name]


@pytest.fixture
def datagen_flags(tmp_path):
    """Returns a function that says how to make the data of a package's user_case."""
    return lambda folder: [
        *("--problem=user_case", "--num_concurrent_processes=1", f"--t2t_usr_dir={folder}"),
        *(f"--data_dir={tmp_path / 'data'}", f"--tmp_dir={tmp_path / 'raw'}"),
    ]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> pathlib.Path:
    """What the programs of `small_jobs` read."""
    folder = tmp_path_factory.mktemp("prepared")
    small_jobs.prepare(folder)
    return folder


def used(folder: pathlib.Path) -> int:
    """Returns the bytes of the pages that a folder's files take."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*"))


@dataclasses.dataclass(frozen=True)
class End:
    """What a program left: the digests of its files, and their bytes."""

    files: dict[str, str]
    bytes: int


@pytest.fixture(scope="session")
def straight(prepared, tmp_path_factory):
    """Returns a function: straight(program) is what it leaves where nothing disturbs it."""
    ends: dict[str, End] = {}

    def end(program: str) -> End:
        if program not in ends:
            folder = tmp_path_factory.mktemp(f"straight-{program}")
            process = small_jobs.start(program, prepared, folder / "to", folder / "log")
            assert process.wait(300) == 0, process.said()
            ends[program] = End(small_jobs.contents(folder / "to"), used(folder / "to"))
        return ends[program]

    return end
