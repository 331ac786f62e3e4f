"""A table that is printed in a terminal and written as Markdown, HTML and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column: its heading, and how a value is written."""

    heading: str
    form: str = "{}"

    def write(self, value: Any) -> str:
        """Returns a value as text; None is an empty cell."""
        if value is None:
            return ""
        text = self.form.format(value)
        return text if isinstance(value, str) else text.replace("e+", "e")


def columns(text: str) -> tuple[Column, ...]:
    """Reads "step :, | loss :.3f | command": headings, and behind " :" how values are written."""
    pieces = (piece.strip().partition(" :") for piece in text.split("|"))
    return tuple(Column(name, f"{{:{form}}}" if form else "{}") for name, _, form in pieces)


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a title above and notes below."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    @property
    def headings(self) -> list[str]:
        """The columns' names."""
        return [column.heading for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The rows as text."""
        pairs = (zip(self.columns, row, strict=True) for row in self.rows)
        return [[column.write(value) for column, value in row] for row in pairs]

    @property
    def aligned(self) -> list[str]:
        """On which side each column stands: text left, numbers right."""
        sides = (
            any(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))
        )
        return ["left" if text else "right" for text in sides]

    def as_dict(self) -> dict[str, Any]:
        """Returns {"title", "rows": [{heading: value}], "notes"}; values are not rounded."""
        rows = [dict(zip(self.headings, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}

    def markdown(self) -> str:
        """Returns the title as a heading, the table, and the notes as paragraphs."""
        rules = ["---" if side == "left" else "---:" for side in self.aligned]
        cells = [[text.replace("|", r"\|") for text in row] for row in self.texts]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rules, *cells))
        return "\n\n".join([f"## {self.title}", table, *self.notes]) + "\n"

    def print(self, console) -> None:
        """Prints the table on a `rich.console.Console`."""
        from rich import box, markup, table

        grid = table.Table(
            title=markup.escape(self.title),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            padding=0,
        )
        for heading, side in zip(self.headings, self.aligned, strict=True):
            heading, number = markup.escape(heading), side == "right"
            grid.add_column(heading, justify=side, no_wrap=number, overflow="fold")  # type: ignore
        for row in self.texts:
            grid.add_row(*map(markup.escape, row))
        console.print(grid)
        for note in self.notes:
            console.print(markup.escape(note), style="dim", highlight=False)
        console.print()
