"""Trees drawn in a terminal."""

import pytest

from t2t_repro.parsing import parseval
from t2t_repro.views import tree_scores

GOLD = "(TOP (S (NP (NNP Shearson) (NNP Lehman) (NNP Hutton)) (VP (VBD rose)) (. .)))"
FOUND = "(TOP (S (NNP Shearson) (NNP Lehman) (NNP Hutton) (VP (VBD rose)) (. .)))"


@pytest.mark.parametrize(
    "columns, drawn",
    [
        (100, ["TOP", "  S", "-     NP NNP Shearson NNP Lehman NNP Hutton", "VP VBD rose"]),
        (50, ["TOP", "  S", "-     NP NNP Shearson", "      NNP Lehman NNP", "      Hutton"]),
    ],
)
def test_what_does_not_fit_goes_on_as_far_in(columns, drawn, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    tree_scores.print_worst(parseval.score([GOLD], [FOUND]), [GOLD], [FOUND], 1)
    gold = [
        line.split("│")[1][1:].rstrip()
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    ]
    assert all(line.endswith(expected) for line, expected in zip(gold, drawn, strict=False))
    assert [line for line in gold if line.startswith("-")] == [drawn[2]]
