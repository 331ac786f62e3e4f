import pytest

from t2t_repro.corpora.request import Corpus, RawText
from t2t_repro.errors import UserError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "c.tsv").write_text("one\ttwo\n")
    (tmp_path / "d.en").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_corpora(folder):
    request = RawText(
        train_source="a.en, c.tsv,b.en",
        train_target="a.de,,b.de",
        dev_source="c.tsv",
        train_weights="1,2.5,3",
    )
    assert request.corpora() == [
        Corpus("train", "a.en", "a.de"),
        Corpus("train", "c.tsv", None, 2.5),
        Corpus("train", "b.en", "b.de", 3.0),
        Corpus("dev", "c.tsv", None),
    ]
    assert bool(request) and not RawText()


@pytest.mark.parametrize(
    "flags, named",
    [
        ({"dev_size": 5}, "--train_source .*--dev_size"),
        ({"train_source": "a", "dev_target": "b"}, "--dev_source .*--dev_target"),
        ({"train_source": "a", "dev_source": "b", "dev_size": 3}, "--dev_source .*--dev_size"),
        ({"train_source": "a", "columns": "1,de"}, "--columns .*'1,de'"),
        ({"train_source": "d.en"}, "d.en"),
        ({"train_source": "a.en,d.en", "train_target": "a.de"}, "--train_source"),
        ({"train_source": "c.tsv", "train_weights": "1,2"}, "--train_weights .*'1,2'"),
        ({"train_source": "c.tsv", "train_weights": "nan"}, "--train_weights .*'nan'"),
    ],
)
def test_what_does_not_fit_is_named(folder, flags, named):
    with pytest.raises(UserError, match=named):
        RawText(**flags).corpora()
