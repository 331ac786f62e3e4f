"""The table of settings: the paper's, T2T's and ours; docs/paper.md shows it."""

from pathlib import Path

import pytest

from t2t_repro.studies.paper import settings

DOC = Path(__file__).parents[3] / "docs" / "paper.md"


def rows():
    (table,) = settings.table()
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, row, strict=True)) for row in table.rows]


def test_ours_are_the_papers():
    assert len(rows()) == len(settings.SETTINGS) > 20
    for row in rows():
        assert row["ours"] == row["paper"], row


@pytest.mark.parametrize(
    "setting, value",
    [
        ("sublayer", "x + Sublayer(LayerNorm(x))"),
        ("attention dropout", "0.1"),
        ("rate of update n", "2 d^-0.5 min(n^-0.5, n w^-1.5)"),
        ("updates", "250,000"),
        ("target tokens an update", ""),
        ("most tokens more than the source", "100"),
    ],
)
def test_t2ts_are_others_and_a_deviation_has_a_reason(setting, value):
    (row,) = (row for row in rows() if row["setting"] == setting)
    assert row["T2T"] == value != row["paper"]


def test_the_page_shows_what_the_program_prints():
    (table,) = settings.table()
    _, shown, *notes = table.markdown().strip().split("\n\n")
    text = DOC.read_text(encoding="utf-8")
    for part in (shown, *notes):
        assert part in text, f"paste it into docs/paper.md: t2t-paper --tables=settings: {part}"
