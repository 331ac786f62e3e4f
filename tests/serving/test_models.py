"""Which models --model names."""

import pytest

from t2t_repro.errors import UserError
from t2t_repro.serving import exported, models


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("7", "a,b=c", "en-de"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()


@pytest.mark.parametrize(
    "given, found",
    [
        (["7"], [("7", "", "")]),
        (["a,b=c"], [("a,b=c", "", "")]),
        (["de-en=7"], [("7", "de", "en")]),
        (["de-en=7,en-de=a,b=c"], [("7", "de", "en"), ("a,b=c", "en", "de")]),
        (["zh_Hans-en=7", "en-de=7"], [("7", "zh_Hans", "en"), ("7", "en", "de")]),
    ],
)
def test_what_is_named(folders, given, found, monkeypatch):
    monkeypatch.setattr(exported, "ExportedModel", str)
    loaded = [folder.load() for folder in models.find(given)]
    assert [(m.model, m.source, m.target) for m in loaded] == found
    assert loaded[0].name == (f"{found[0][1]}-{found[0][2]}" if found[0][1] else found[0][0])


@pytest.mark.parametrize(
    "given, message",
    [
        ([], "Expected --model, the folder that t2t-exporter wrote. Received: none."),
        (["de-en=nowhere"], "Received: nowhere, which does not exist."),
        (["7", "en-de"], "the languages of each, no two the same. Received: --model=7,en-de."),
        (["de-en=7", "en-de"], "Expected of several models the languages of each"),
        (["de-en=7", "De-en=en-de"], "no two the same"),
    ],
)
def test_what_is_refused(folders, given, message):
    with pytest.raises(UserError, match=message):
        models.find(given)
