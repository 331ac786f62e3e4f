import io

from rich import console

from t2t_repro.studies.tables import Column, Table

TABLE = Table(
    "t",
    "A title [not markup]",
    (
        *(Column("name"), Column("FLOP", "{:.1e}"), Column("a number", "{:,.2f}")),
        Column("hidden", in_files_only=True),
    ),
    [("a|b", 3.28e18, 1234.5, "x"), ("[c]", None, 0.125, "y")],
    ("A note.",),
)


def printed(width):
    out = io.StringIO()
    TABLE.print(console.Console(file=out, width=width))
    return out.getvalue()


def test_markdown():
    assert TABLE.markdown() == (
        "## A title [not markup]\n\n"
        "| name | FLOP | a number | hidden |\n"
        "| --- | ---: | ---: | --- |\n"
        "| a\\|b | 3.3e18 | 1,234.50 | x |\n"
        "| [c] |  | 0.12 | y |\n\n"
        "A note.\n"
    )


def test_a_name_keeps_its_signs():
    assert Column("run").write("runs/base+big") == "runs/base+big"
    assert Column("FLOP", "{:.0e}").write(2e18) == "2e18"


def test_as_dict_keeps_the_values_as_they_are():
    assert TABLE.as_dict() == {
        "title": "A title [not markup]",
        "rows": [
            {"name": "a|b", "FLOP": 3.28e18, "a number": 1234.5, "hidden": "x"},
            {"name": "[c]", "FLOP": None, "a number": 0.125, "hidden": "y"},
        ],
        "notes": ["A note."],
    }


def test_printed_with_brackets_and_without_what_only_the_files_have():
    text = printed(100)
    assert "A title [not markup]" in text and "[c]" in text and "A note." in text
    assert "hidden" not in text


def test_a_narrow_terminal_keeps_numbers_whole():
    lines = printed(20).splitlines()
    assert any("3.3e18" in line and "1,234.50" in line for line in lines)
    assert max(map(len, lines)) <= 20


def test_text_that_folds_gives_way_to_the_columns_behind_it():
    columns = [Column("layer"), Column("kind"), Column("ms", "{:.1f}"), Column("GFLOP/s")]
    rows = [("Self-Attention with projections", "aa bb cc dd ee", 198.4, 1234567)]
    out = io.StringIO()
    Table("t", "A title", columns, rows).print(console.Console(file=out, width=35))
    lines = out.getvalue().splitlines()
    assert ["layer", "kind", "ms", "GFLOP/s"] in [line.split() for line in lines]
    assert any(line.endswith("198.4 1234567") for line in lines)
    assert max(map(len, lines)) == 35


def test_rows_of_many_lines_begin_at_the_top_and_stand_apart():
    made = Table("t", "A title", (Column("a"), Column("b")), [("x", "one two three four")] * 2)
    out = io.StringIO()
    made.print(console.Console(file=out, width=8))
    lines = [line.split() for line in out.getvalue().splitlines()]
    first = lines.index(["x", "one"])
    assert lines[first : first + 6] == [
        ["x", "one"],
        ["two"],
        ["three"],
        ["four"],
        [],
        ["x", "one"],
    ]
    out = io.StringIO()
    made.print(console.Console(file=out, width=40))
    assert [] not in [line.split() for line in out.getvalue().splitlines()[:-1]]
