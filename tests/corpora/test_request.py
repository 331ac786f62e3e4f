import os

import pytest

from t2t_repro.corpora.request import Corpus, RawText
from t2t_repro.errors import UserError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("a.en", "a.de", "b1.en", "b2.en", "b1.de", "b2.de", "c.tsv", "d.en", "e,f"):
        (tmp_path / name).write_text("one\ttwo\n")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_corpora(folder):
    request = RawText(
        train_source="a.en, c.tsv,b*.en",
        train_target="a.de,,b*.de",
        dev_source="d.en",
        train_weights="1,2.5,3",
    )
    assert request.corpora() == [
        Corpus("train", "a.en", (("a.en", "a.de"),)),
        Corpus("train", "c.tsv", (("c.tsv", None),), 2.5),
        Corpus("train", "b*.en", (("b1.en", "b1.de"), ("b2.en", "b2.de")), 3.0),
        Corpus("dev", "d.en", (("d.en", None),)),
    ]
    assert bool(request) and not RawText()


def test_takes_its_flags_out_of_all():
    request, rest = RawText.of({"train_source": "a", "treebank_dir": "b"})
    assert (request, rest) == (RawText(train_source="a"), {"treebank_dir": "b"})


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"dev_size": 5}, "Expected --train_source with --dev_size. Received: none"),
        ({"train_source": "a", "dev_target": "b"}, "Expected --dev_source with --dev_target"),
        ({"train_source": "a", "dev_source": "b", "dev_size": 3}, "--dev_source or --dev_size"),
        ({"train_source": "a", "source_language": "en"}, "Received: one of them. Add the other"),
        ({"train_source": "a", "source_language": "en", "target_language": "EN"}, "two languages"),
        ({"train_source": "a", "columns": "1"}, "--columns to be .* Received: '1'"),
        ({"train_source": "a", "columns": "1,de"}, "--columns to be .* Received: '1,de'"),
        ({"train_source": "a", "columns": "2,2"}, "--columns to be"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        RawText(**flags)


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"train_source": "x*.en"}, "match --train_source=x.*.en. Received: none. Correct the pat"),
        ({"train_source": "none.en"}, "Received: none.en, which is not there"),
        ({"train_source": "a.en,,c.tsv"}, "commas of --train_source. Received: nothing"),
        ({"train_source": "sub"}, "Received: sub, which is a folder"),
        ({"train_source": "pipe"}, "Received: pipe, which is a device or pipe"),
        ({"train_source": "empty", "train_target": "a.de"}, "in empty. Received: an empty file"),
        ({"train_source": "a.en,d.en", "train_target": "a.de"}, "as many files in .* 2 and 1"),
        (
            {"train_source": "a.en,d.en", "train_target": "a.de,c.tsv,b1.de"},
            "as many files in .* 2 and 3",
        ),
        (
            {"train_source": "a.en", "train_target": "e,f"},
            "--train_target to be files with commas between. Received: e,f, the name of one",
        ),
        ({"train_source": "*.en", "train_target": "*.de"},
         "Received: 4 and 3 files, of which d.en would stand beside nothing"),
        ({"train_source": "[ad].en", "train_target": "b*.de"}, "a.en would stand beside b1.de"),
        ({"train_source": "a.en", "train_target": "a.en"}, "each file once. Received: a.en twice"),
        ({"train_source": "c.tsv", "dev_source": "./c.tsv"}, "./c.tsv twice, also as c.tsv"),
        ({"train_source": "c.tsv", "train_weights": "1,2"}, "to be 1 numbers above 0"),
        ({"train_source": "c.tsv", "train_weights": "nan"}, "Received: 'nan'"),
        ({"train_source": "c.tsv", "train_weights": "two"}, "Received: 'two'"),
        ({"train_source": "a.en", "train_target": "a.de", "columns": "1,2"},
         "--columns with files that hold both sides. Received: lines alone"),
        ({"train_source": "a.en", "train_target": "a.de", "source_language": "en",
          "target_language": "de"}, "Expected --source_language with files that hold both"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_named(folder, flags, message):
    with pytest.raises(UserError, match=message):
        RawText(**flags).corpora()


@pytest.mark.parametrize("name", ["dev_source", "test_target", "columns", "train_source"])
def test_a_flag_of_a_variable_that_is_not_set_is_refused(name):
    given = {"train_source": "a", "train_target": "b", name: ""}
    with pytest.raises(UserError, match=f"Expected --{name} with a value. Received: nothing"):
        RawText(**given)
