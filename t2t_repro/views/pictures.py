"""Pictures of one style: PNGs small enough for a repository, drawn without a display.

A figure is made, drawn upon with matplotlib's own methods, and saved:

    figure, (left, right) = pictures.figure(2, title="Loss")
    left.plot(steps, losses, label="post-norm")
    pictures.save(figure, folder / "loss.png")

matplotlib is loaded by the calls, so that programs may import this module at their top. Nothing
here touches pyplot or rcParams, which belong to the whole process.
"""

import base64
import io
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from t2t_repro.files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's, told apart by the colour-blind too; light yellow is left out.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
HEAT = "Blues"  # of what runs from 0 to 1, such as attention weights
SIGNED = "RdBu_r"  # of what has two signs
LIMIT = 200_000  # bytes
_RESOLUTIONS = (144, 120, 96, 72, 48)  # dots an inch, the first that stays below LIMIT


def figure(
    columns: int = 1,
    rows: int = 1,
    *,
    title: str = "",
    width: float = 5.0,
    height: float = 3.6,
    grid: bool = True,
) -> "tuple[Figure, Any]":
    """Returns a figure and its axes: one, or an array of them in reading order if there are more.

    Args:
        columns, rows: how many axes.
        title: above all of them.
        width, height: of each of the axes, in inches.
        grid: lines behind what is drawn; leave them out of a heat map.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(made)
    if title:
        made.suptitle(title, fontsize=12, fontweight="bold")
    axes = made.subplots(rows, columns, squeeze=False).ravel()
    for each in axes:
        each.set_prop_cycle(color=COLORS)
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=8)
        each.xaxis.label.set_size(9)
        each.yaxis.label.set_size(9)
        each.title.set_size(10)
        if grid:
            each.grid(True, color="#dddddd", linewidth=0.6)
            each.set_axisbelow(True)
    return made, axes if len(axes) > 1 else axes[0]


def band(axes: Any, x: Sequence[float], of_each: Sequence[Sequence[float]], **style: Any) -> None:
    """Draws the mean of the seeds at each x, and a band from the least to the greatest.

    Args:
        axes: where.
        x: as many as `of_each`.
        of_each: the values of the seeds there.
        style: of the line; its colour is the band's.
    """
    mean, low, high = zip(*((sum(v) / len(v), min(v), max(v)) for v in of_each), strict=True)
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def png(drawn: "Figure") -> bytes:
    """Returns a figure as a PNG of at most LIMIT bytes, coarser where it must be.

    What a caller has written in it is plain text: dollar signs, which a user's words and files may
    have, begin no formula.
    """
    from matplotlib.text import Text

    for text in drawn.findobj(Text):
        written = text.get_text()
        if "$" in written and r"\mathdefault" not in written:  # matplotlib's own powers of ten
            text.set_parse_math(False)
    for resolution in _RESOLUTIONS:
        file = io.BytesIO()
        with warnings.catch_warnings():
            # A script that the font lacks is drawn as boxes; pages and tables have the text.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            drawn.savefig(file, format="png", dpi=resolution, metadata={"Software": None})
        if file.tell() <= LIMIT:
            break
    return file.getvalue()


def save(drawn: "Figure", path: str | os.PathLike) -> None:
    """Writes a figure as a PNG that is whole or absent."""
    content = png(drawn)
    with writing(path, "wb") as file:
        file.write(content)


def data_uri(content: bytes) -> str:
    """Returns a PNG as text for an <img src>, for pages that load nothing."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
