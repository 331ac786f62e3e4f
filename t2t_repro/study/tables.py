"""A table that is written as Markdown, HTML and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a title above and notes below.

    Attributes:
        name: in JSON.
        title: above the table.
        columns: "step :, | loss :.3f | command": headings, and behind " :" how a value is written.
        rows: a value a column; None is an empty cell.
        notes: paragraphs.
    """

    name: str
    title: str
    columns: str
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    @property
    def headings(self) -> list[str]:
        """The columns' names."""
        return [piece.strip().partition(" :")[0] for piece in self.columns.split("|")]

    @property
    def texts(self) -> list[list[str]]:
        """The rows as text."""
        forms = [piece.strip().partition(" :")[2] for piece in self.columns.split("|")]
        return [[_text(*cell) for cell in zip(row, forms, strict=True)] for row in self.rows]

    @property
    def aligned(self) -> list[str]:
        """On which side each column stands: text left, numbers right."""
        text = [any(isinstance(r[i], str) for r in self.rows) for i in range(len(self.headings))]
        return ["left" if each else "right" for each in text]

    def as_dict(self) -> dict[str, Any]:
        """Returns {"title", "rows": [{heading: value}], "notes"}; values are not rounded."""
        rows = [dict(zip(self.headings, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}

    def markdown(self) -> str:
        """Returns the title as a heading, the table, and the notes as paragraphs."""
        rules = ["---" if side == "left" else "---:" for side in self.aligned]
        cells = [[text.replace("|", r"\|") for text in row] for row in self.texts]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rules, *cells))
        return "\n\n".join([f"## {self.title}", table, *self.notes])


def _text(value: Any, form: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return format(value, form).replace("e+", "e")
