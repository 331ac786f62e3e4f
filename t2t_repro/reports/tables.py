"""A table that is printed in a terminal and written as Markdown and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_WORD = 14  # characters: "Self-Attention", and any number


@dataclass(frozen=True)
class Column:
    """A column: its heading, how a value is written, and whether only the files have it."""

    heading: str
    form: str = "{}"
    in_files_only: bool = False

    def write(self, value: Any) -> str:
        """Returns a value as text; None is an empty cell."""
        return "" if value is None else self.form.format(value).replace("e+", "e")


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a title above and notes below."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns {"title", "rows": [{heading: value}], "notes"}; values are not rounded."""
        headings = [column.heading for column in self.columns]
        rows = [dict(zip(headings, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}

    def markdown(self) -> str:
        """Returns the title as a heading, the table, and the notes as paragraphs."""
        lines = [[column.heading for column in self.columns]]
        lines.append(["---" if self._is_text(i) else "---:" for i in range(len(self.columns))])
        for row in self.rows:
            cells = (column.write(value) for column, value in self._pairs(row))
            lines.append([cell.replace("|", r"\|") for cell in cells])
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return "\n\n".join([f"## {self.title}", table, *self.notes]) + "\n"

    def print(self, console) -> None:
        """Prints the table on a `rich.console.Console`."""
        from rich import box, markup, table

        shown = [i for i, column in enumerate(self.columns) if not column.in_files_only]
        grid = table.Table(
            title=markup.escape(self.title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, int(console.width >= 100), 0, 0),
            show_edge=False,
        )
        rows = [[column.write(value) for column, value in self._pairs(row)] for row in self.rows]
        for i in shown:
            heading = self.columns[i].heading
            # In a narrow terminal only text folds, and a name longer than a word.
            words = [word for text in (heading, *(row[i] for row in rows)) for word in text.split()]
            grid.add_column(
                markup.escape(heading),
                justify="left" if self._is_text(i) else "right",
                min_width=max((len(word) for word in words if len(word) <= _WORD), default=0),
                overflow="fold",
                vertical="bottom",
            )
        for row in rows:
            grid.add_row(*(markup.escape(row[i]) for i in shown))
        console.print(grid)
        for note in self.notes:
            console.print(markup.escape(note), style="dim", highlight=False)
        console.print()

    def _pairs(self, row: Sequence[Any]) -> Iterator[tuple[Column, Any]]:
        return zip(self.columns, row, strict=True)

    def _is_text(self, i: int) -> bool:
        return any(isinstance(row[i], str) for row in self.rows)
