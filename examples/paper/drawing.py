"""The flags, the style of the pictures and the files that the scripts of this folder share."""

import argparse
import json
import pathlib

from matplotlib import pyplot


def arguments(text, **defaults):
    """Returns the parsed flags: --output_dir, and one for each default; a tuple takes several."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=text, formatter_class=style)
    parser.add_argument("--output_dir", type=pathlib.Path, default="paper_pictures")
    for name, default in defaults.items():
        several = {"nargs": "+"} if isinstance(default, tuple) else {}
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{default}", **several)
    return parser.parse_args()


def figure(title, columns=1):
    """Returns a figure with a title, and a list of its axes."""
    made, axes = pyplot.subplots(1, columns, figsize=(5 * columns, 3.8), layout="constrained")
    made.suptitle(title, fontweight="bold")
    axes = [axes] if columns == 1 else list(axes)
    for each in axes:
        each.grid(True, color="#dddddd")
    return made, axes


def line(axes, x, values, label, marker="o", size=6):
    """Draws the mean of each group of values, and a band from its least to its greatest."""
    mean, least, most = zip(*((sum(v) / len(v), min(v), max(v)) for v in values), strict=True)
    (drawn,) = axes.plot(x, mean, marker, ls="-", ms=size, label=label)
    axes.fill_between(x, least, most, color=drawn.get_color(), alpha=0.2)


def save(made, numbers, path):
    """Writes the picture to path.png, and the numbers, {name: rows}, to path.json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made.savefig(f"{path}.png", dpi=120)
    pathlib.Path(f"{path}.json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"Written to {path}.png and {path}.json.")
