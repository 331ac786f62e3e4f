import pytest

from t2t_repro.corpora.request import Corpus, RawText


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
