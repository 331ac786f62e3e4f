"""Scores of parse trees in a terminal: the sums, and the worst sentences drawn."""

from collections.abc import Sequence

from t2t_repro.parsing import parseval, trees

_LABELS = {  # in EVALB's order
    "recall": "bracketing recall",
    "precision": "bracketing precision",
    "f1": "bracketing F1",
    "exact_match": "complete match",
    "average_crossing": "average crossing",
    "no_crossing": "no crossing",
    "two_or_less_crossing": "2 or less crossing",
    "tagging_accuracy": "tagging accuracy",
    "sentences": "sentences",
    "valid_sentences": "valid sentences",
    "error_sentences": "error sentences",
    "skipped_sentences": "skipped sentences",
}
_MOST_ERRORS = 10  # that are listed in the terminal


def print_summary(result: dict) -> None:
    """Prints the sums over all sentences and over the short ones, side by side."""
    from rich import console, table

    sums = {name: value for name, value in result.items() if name not in ("sentences", "repairs")}
    rows = table.Table("", *sums)
    for column in rows.columns[1:]:
        column.justify = "right"
    for key, label in _LABELS.items():
        values = [part[key] for part in sums.values()]
        style = "bold" if key == "f1" else "red" if key == "error_sentences" and any(values) else ""
        cells = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)
        rows.add_row(label, *cells, style=style)
    out = console.Console()
    out.print(rows)
    if "repairs" in result:
        changes = dict(result["repairs"])
        repaired = changes.pop("sentences")
        listed = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in changes.items())
        out.print(f"repaired {repaired} of {sums['all']['sentences']} predictions ({listed})")


def print_worst(
    result: dict, gold_trees: Sequence[str], predicted_trees: Sequence[str], count: int
) -> None:
    """Prints the sentences of the lowest F1, gold and predicted side by side; then the errors."""
    from rich import console, table

    out = console.Console()
    valid = [row for row in result["sentences"] if row["status"] == parseval.VALID]
    worst = sorted(valid, key=lambda row: (row["f1"], row["id"]))[:count]
    for row in (row for row in worst if row["f1"] < 100):
        gold = trees.parse(gold_trees[row["id"] - 1])
        predicted = trees.parse(predicted_trees[row["id"] - 1])
        in_gold, in_predicted = parseval.matched_nodes(gold, predicted)
        sides = table.Table(
            "gold ([red]- missed[/red])",
            "predicted ([yellow]+ not in gold[/yellow])",
            title=f"sentence {row['id']}: F1 {row['f1']:.2f}",
            title_justify="left",
            expand=True,
        )
        sides.add_row(
            _drawing(gold, in_gold, "red", "-"), _drawing(predicted, in_predicted, "yellow", "+")
        )
        out.print(sides)
    invalid = [row for row in result["sentences"] if row["status"] != parseval.VALID]
    for row in invalid[:_MOST_ERRORS]:
        kind = "error" if row["status"] == parseval.ERROR else "skipped"
        out.print(f"sentence {row['id']}: {kind}: {row['reason']}", style="red", markup=False)
    if len(invalid) > _MOST_ERRORS:
        out.print(f"... and {len(invalid) - _MOST_ERRORS} more, in --csv_file", style="red")


def _drawing(tree: trees.Tree, matched: dict[int, bool], colour: str, mark: str):
    """Returns the tree as indented lines; a bracket that the other tree lacks has a mark.

    What does not fit on a line goes on below it, as far in.
    """
    from rich import console, table, text

    lines: list[table.Table] = []
    line, depth, closed = text.Text(), 0, False
    for node, opens in tree.walk():
        if node.word is None and not opens:
            depth -= 1
            closed = True
            continue
        counts = id(node) in matched
        wrong = counts and not matched[id(node)]
        if closed or node.word is None:
            lead, line = f"{mark if wrong else ' '} {'  ' * depth}", text.Text()
            row = table.Table.grid()
            row.add_column(width=len(lead), no_wrap=True)
            row.add_column()
            row.add_row(text.Text(lead, style=colour), line)
            lines.append(row)
        if node.word is None:
            line.append(
                node.label, style=f"bold {colour}" if wrong else "green" if counts else "dim"
            )
            depth += 1
        elif opens:
            line.append(f" {node.label} " if not closed else f"{node.label} ", style="dim")
            line.append(node.word)
        closed = False
    return console.Group(*lines)
