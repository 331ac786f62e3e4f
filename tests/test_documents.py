"""The documents' commands, programs (docs/keras.md), lessons (notebooks/) and API reference."""

import importlib
import pathlib
import re
import shlex

import pytest

from t2t_repro import cli
from tests import forks

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "keras.md").read_text(encoding="utf-8")
PICTURES = {  # what each lesson draws
    "paper_in_code": {"model", "mask", "positions", "learning", "attention"},
    "your_own_text": set(),
    "inside_a_run": {"learning", "encoder-decoder", "encoder", "heads", "positions", "norms"},
}

LESSON = """
import runpy, sys
from tests import faulty_files, forks
faulty_files.leave_graphs()
forks.fork_programs()
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def scripts(folder, backend, *names):
    """Runs scripts of docs/keras.md, each in a process of its own; returns what each printed."""
    texts = (re.search(rf"```python\n(# {n}\n.*?)```", PAGE, re.DOTALL)[1] for n in names)
    return [forks.said_by("-c", text, cwd=folder, KERAS_BACKEND=backend) for text in texts]


class Parsed(Exception):
    """A program accepts its flags."""


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in ROOT.glob("docs/*.md"))])
def test_the_flags_of_the_commands_exist(page, monkeypatch):
    def parse(*arguments, known=cli._parse):
        known(*arguments)
        raise Parsed

    monkeypatch.setattr(cli, "_parse", parse)
    programs = dict(re.findall(r'"(t2t-[\w-]+)": "(\w+)"', (ROOT / "setup.py").read_text()))
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    text = path.read_text(encoding="utf-8").replace("\\\n", "")
    for call in re.findall(r"(?:^|[`&] ?|exec )(t2t-[^`&\n]* --\w+=[^`&\n]*)", text, re.M):
        program, *flags = shlex.split(call.rstrip("'"), comments=True)
        with pytest.raises(Parsed):
            importlib.import_module(f"t2t_repro.bin.{programs[program]}").console(flags)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_text_becomes_right_translations_in_thirty_lines(tmp_path, backend):
    (said,) = scripts(tmp_path, backend, "translate.py")
    names = "one ein two zwei three drei four vier five fünf six sechs hundred hundert"
    names = f"{names} twenty zwanzig thirty dreißig forty vierzig fifty fünfzig".split()
    words = {"->": "und"} | dict(zip(names[::2], names[1::2], strict=True))
    lines = [line.split() for line in said.splitlines() if "->" in line]
    program = PAGE.partition("# translate.py")[2].partition("```")[0]
    assert len(lines) == 3 and program.count("\n") <= 30
    for *source, hundreds, hundred, units, und, tens in lines:
        assert [hundreds, hundred, tens, units, und] == [words[word] for word in source]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_programs_of_the_page_run(tmp_path, backend):
    _, said = scripts(tmp_path, backend, "train.py", "go_on.py")
    assert (tmp_path / "served" / "saved_model.pb").is_file()
    log = (tmp_path / "log.csv").read_text()
    header, *rows = log.splitlines()
    assert len(rows) == 3 and "val_bleu" in header
    assert (tmp_path / "best.keras").is_file()
    assert re.search(r"^\[.*\]$", said, re.MULTILINE)
    scripts(tmp_path, backend, "train.py")  # the training has ended
    assert (tmp_path / "log.csv").read_text() == log


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_program_of_ones_own_layers_runs(tmp_path, backend):
    trained, loaded = scripts(tmp_path, backend, "own.py", "own_go_on.py")
    (predicted,) = re.findall(r"^\[\[[^\]]*\]\n \[[^\]]*\]\]$", trained, re.MULTILINE)
    assert predicted in loaded
    assert (tmp_path / "own-served" / "saved_model.pb").is_file()


def test_the_page_and_make_name_each_lesson():
    lessons = {
        path.stem for path in (ROOT / "notebooks").glob("*.py") if "# %%" in path.read_text("utf-8")
    }
    assert lessons == set(PICTURES)
    table = PAGE.partition("## Three lessons")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == lessons
    made = re.search(r"^LESSONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert set(made.split()) == lessons


@pytest.mark.slow
@pytest.mark.parametrize("lesson", PICTURES)
def test_a_lesson_runs(lesson, tmp_path):
    path = ROOT / "notebooks" / f"{lesson}.py"
    forks.said_by("-c", LESSON, path, cwd=tmp_path, MPLBACKEND="Agg")
    drawn = (tmp_path / "t2t_runs" / "lessons" / lesson).glob("*.png")
    assert {path.stem for path in drawn} == PICTURES[lesson]


@pytest.mark.slow
def test_the_api_reference_is_made_of_public_names(tmp_path):
    forks.said_by("docs/api.py", tmp_path, cwd=ROOT)
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
