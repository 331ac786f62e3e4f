"""t2t-paper: the tables as files."""

import json

import pytest

from t2t_repro.bin import paper
from tests import untrained
from tests.paper.test_tables import BLEU, tables


def run(*argv):
    paper.console(list(argv))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_tables(folder, capsys, monkeypatch):
    base, *_, big = tables.published.TABLE3
    monkeypatch.setattr(tables.published, "TABLE3", (base, big))
    untrained.begun(folder / "here" / "a", "transformer_base_v1", "translate_ende_wmt32k")
    (folder / "here" / "a" / "bleu.json").write_text(json.dumps(BLEU))
    run("tables", "--output_dir=here")
    out = capsys.readouterr().out
    for text in ("ByteNet", "Luong et al. (2015)", "26.6", "27.11", "tok:13a"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 100
    values = json.loads((folder / "here" / "paper.json").read_text())
    assert list(values) == ["2", "3", "4"]
    markdown = (folder / "here" / "paper.md").read_text()
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3e19 | 2.3e19 | 27.7 |" in markdown
    assert "| big | 6 | 1024 | 4096 | 16 |" not in markdown  # empty: as in base
    assert "65.1" not in markdown and "| 63.1 |" in markdown
    run("tables", "--table=4")
    assert list(json.loads((folder / "paper_runs" / "paper.json").read_text())) == ["4"]
