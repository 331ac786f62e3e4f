"""A --t2t_usr_dir of any name and form: only what it imports is read."""

import os
import sys

import pytest

PACKAGE = """
@register_problem
class UserCase(Text2TextProblem):
    vocab_type = "character"
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield dict(inputs="a", targets="b")
"""


def test_a_file_that_nothing_imports_is_not_read(call, package, datagen_flags, tmp_path):
    folder, _ = package(PACKAGE)
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "binary.py").write_bytes(b"\0\xff" * 100)
    os.mkfifo(folder / "pipe.py")
    outcome = call("datagen", *datagen_flags(folder))
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("name", ["with.a.dot", "with a space", "Ünï", "json", "1", "a-b"])
def test_any_name(call, package, datagen_flags, tmp_path, name):
    folder, _ = package("from . import more\n" + PACKAGE, name)
    (folder / "more.py").write_text("import json\njson.loads('5')\n")
    outcome = call("datagen", *datagen_flags(folder))
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("name", ["t2t_repro", "tensor2tensor"])
def test_a_name_that_is_taken(call, refused, package, datagen_flags, tmp_path, name):
    folder, _ = package(PACKAGE, name)
    refused(call("datagen", *datagen_flags(folder)), "a name of its own", "Rename it.")
    assert sys.modules["t2t_repro"].__file__ != str(folder / "__init__.py")


FORMS = {
    "nothing": lambda folder: None,
    "a file": lambda folder: folder.write_text("x"),
    "an empty folder": lambda folder: folder.mkdir(),
    "a folder as __init__.py": lambda folder: (folder / "__init__.py").mkdir(parents=True),
    "a broken link": lambda folder: (folder.mkdir(), (folder / "__init__.py").symlink_to("x")),
    "null bytes": lambda folder: (folder.mkdir(), (folder / "__init__.py").write_bytes(b"\0")),
    "not UTF-8": lambda folder: (folder.mkdir(), (folder / "__init__.py").write_bytes(b"'\xff'")),
    "too deep": lambda folder: (folder.mkdir(), (folder / "__init__.py").write_text("(" * 10**5)),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_package(call, refused, package, datagen_flags, tmp_path, form):
    FORMS[form](tmp_path / "package")
    refused(call("datagen", *datagen_flags(tmp_path / "package")), "--t2t_usr_dir", "package")


def test_a_fault_of_ours_keeps_its_traceback(call, package, datagen_flags, tmp_path, monkeypatch):
    from t2t_repro.bin import datagen

    folder, _ = package(PACKAGE)
    monkeypatch.setattr(datagen, "print_summary", lambda summary: 1 / 0)
    outcome = call("datagen", *datagen_flags(folder))
    assert outcome.code is None and "ZeroDivisionError" in outcome.err
