from t2t_repro.study.tables import Table

TABLE = Table(
    "t",
    "A title",
    "name | FLOP :.1e | a number :,.2f",
    [("a|b", 3.28e18, 1234.5), ("runs/base+big", None, 0.125)],
    ("A note.",),
)


def test_markdown():
    assert TABLE.markdown() == (
        "## A title\n\n"
        "| name | FLOP | a number |\n"
        "| --- | ---: | ---: |\n"
        "| a\\|b | 3.3e18 | 1,234.50 |\n"
        "| runs/base+big |  | 0.12 |\n\n"
        "A note."
    )
