"""Makes the API reference from the docstrings of the public door: `make docs`.

It writes HTML into build/api, or into the folder that is named. A docstring, a name or a type that
pdoc cannot make sense of is an error.
"""

import html
import importlib
import inspect
import os
import re
import sys
import warnings
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pdoc  # noqa: E402 (TensorFlow comes with what it documents)

PUBLIC = (
    "t2t_repro",
    "t2t_repro.runs",
    "t2t_repro.layers",
    "t2t_repro.callbacks",
    "t2t_repro.data",
    "t2t_repro.data.batching",
    "t2t_repro.text",
    "t2t_repro.decoding.settings",
    "t2t_repro.scoring.bleu",
    "t2t_repro.parsing.parseval",
    "t2t_repro.interop.tensor2tensor",
    "t2t_repro.training.learning_rate",
    "t2t_repro.training.losses",
    "t2t_repro.training.optimizers",
)


def make(output: Path) -> None:
    """Writes a page for each module of PUBLIC, and an index."""
    specs, links = [], []
    for name in PUBLIC:
        module = importlib.import_module(name)
        says = html.escape(inspect.getdoc(module).splitlines()[0])
        page = name.replace(".", "/")
        links.append(f'<dt><a href="{page}.html">{name}</a><dd>{says}')
        for each in getattr(module, "__all__", ()):  # pdoc reads no name that is loaded lazily
            vars(module).setdefault(each, getattr(module, each))
        specs += [name, rf"!{re.escape(name)}\."]
    pdoc.render.configure(docformat="google", include_undocumented=False, show_source=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module=r"pdoc\b")
        pdoc.pdoc(*specs, output_directory=output)
    index = f"<!doctype html><meta charset=utf-8><title>t2t_repro</title><dl>{''.join(links)}</dl>"
    (output / "index.html").write_text(index, encoding="utf-8")  # pdoc's shows one module alone


if __name__ == "__main__":
    make(Path(sys.argv[1] if len(sys.argv) > 1 else "build/api"))
