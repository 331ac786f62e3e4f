"""A table that is printed in a terminal and written as Markdown, HTML and JSON."""

import html
from collections.abc import Iterable, Iterator, Sequence
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
        if value is None:
            return ""
        text = self.form.format(value)
        return text if isinstance(value, str) else text.replace("e+", "e")


def columns(text: str, in_files_only: Sequence[str] = ()) -> tuple[Column, ...]:
    """Reads "step :, | loss :.3f | command": headings, and behind " :" how values are written."""
    pieces = (piece.strip().partition(" :") for piece in text.split("|"))
    return tuple(
        Column(heading, f"{{:{form}}}" if form else "{}", heading in in_files_only)
        for heading, _, form in pieces
    )


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

    def html(self) -> str:
        """Returns the title as a heading, the table, and the notes as paragraphs "note"."""

        def line(tag: str, texts: Iterable[str]) -> str:
            cells = (
                f"<{tag}{' class=text' if self._is_text(i) else ''}>{html.escape(text)}</{tag}>"
                for i, text in enumerate(texts)
            )
            return f"<tr>{''.join(cells)}</tr>"

        lines = [line("th", (column.heading for column in self.columns))]
        for row in self.rows:
            lines.append(line("td", (column.write(value) for column, value in self._pairs(row))))
        notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in self.notes)
        return f"<h2>{html.escape(self.title)}</h2><table>{''.join(lines)}</table>{notes}"

    def print(self, console) -> None:
        """Prints the table on a `rich.console.Console`."""
        from rich import box, markup, table

        shown = [i for i, column in enumerate(self.columns) if not column.in_files_only]
        rows = [[column.write(value) for column, value in self._pairs(row)] for row in self.rows]
        texts = [[self.columns[i].heading, *(row[i] for row in rows)] for i in shown]
        gaps = len(shown) * (1 + int(console.width >= 100)) - 1
        widths = _widths(texts, console.width - gaps)
        high = any(  # three lines and more, which would run into those of the next row
            len(text) > 2 * width
            for (_, *cells), width in zip(texts, widths, strict=True)
            for text in cells
        )
        grid = table.Table(
            title=markup.escape(self.title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, int(console.width >= 100), 0, 0),
            show_edge=False,
            leading=int(high),
        )
        for i, width in zip(shown, widths, strict=True):
            grid.add_column(
                markup.escape(self.columns[i].heading),
                justify="left" if self._is_text(i) else "right",
                width=width,
                overflow="fold",
                vertical="top",
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


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Returns how wide each column of texts is: together no wider than `room`, if that can be.

    The widest gives way first, down to its longest word; only a name longer than _WORD folds.
    """
    widths = [max(map(len, texts)) for texts in columns]
    words = [[len(word) for text in texts for word in text.split()] for texts in columns]
    least = [max((size for size in sizes if size <= _WORD), default=1) for sizes in words]
    while sum(widths) > room and widths != least:
        folding = [i for i, width in enumerate(widths) if width > least[i]]
        widths[max(folding, key=widths.__getitem__)] -= 1
    return widths
