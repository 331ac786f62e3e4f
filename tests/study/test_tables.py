import io

from rich import console

from t2t_repro.study.tables import Column, Table, columns

TABLE = Table(
    "t",
    "A title [not markup]",
    columns("name | FLOP :.1e | a number :,.2f"),
    [("a|b", 3.28e18, 1234.5), ("[c]", None, 0.125)],
    ("A note.",),
)


def test_markdown():
    assert TABLE.markdown() == (
        "## A title [not markup]\n\n"
        "| name | FLOP | a number |\n"
        "| --- | ---: | ---: |\n"
        "| a\\|b | 3.3e18 | 1,234.50 |\n"
        "| [c] |  | 0.12 |\n\n"
        "A note.\n"
    )


def test_a_name_keeps_its_signs():
    assert Column("run").write("runs/base+big") == "runs/base+big"
    assert Column("FLOP", "{:.0e}").write(2e18) == "2e18"


def test_as_dict_keeps_the_values_as_they_are():
    assert TABLE.as_dict() == {
        "title": "A title [not markup]",
        "rows": [
            {"name": "a|b", "FLOP": 3.28e18, "a number": 1234.5},
            {"name": "[c]", "FLOP": None, "a number": 0.125},
        ],
        "notes": ["A note."],
    }


def test_printed_brackets_are_text_and_lines_fit():
    out = io.StringIO()
    TABLE.print(console.Console(file=out, width=40))
    text = out.getvalue()
    for part in ("A title [not markup]", "[c]", "3.3e18", "1,234.50", "A note."):
        assert part in text
    assert max(map(len, text.splitlines())) <= 40
