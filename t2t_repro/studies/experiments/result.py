"""What an experiment hands back, and the three files that it becomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_repro.files import write_csv, write_text_atomic
from t2t_repro.views import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Result:
    """What was measured, drawn, and said of it.

    Args:
        rows: named tuples of text and numbers; all that the picture and the sentences rest on.
        figure: the picture.
        sentences: two, made from the rows by rules that the experiment's module states.
    """

    rows: Sequence[Any]
    figure: "Figure"
    sentences: tuple[str, str]

    def write(self, folder: Path, name: str) -> list[Path]:
        """Writes NAME.png, NAME.csv, floats to six digits, and NAME.txt; returns their paths."""
        paths = [folder / f"{name}.{ending}" for ending in ("png", "csv", "txt")]
        pictures.save(self.figure, paths[0])
        write_csv(paths[1], [row._asdict() for row in self.rows], ".6g")
        write_text_atomic(paths[2], "\n".join(self.sentences) + "\n")
        return paths
