"""The report of t2t-compare: a picture and a sentence, then tables; HTML, Markdown and CSV."""

import dataclasses
import pathlib
import statistics
from collections.abc import Iterable
from typing import Any

import numpy as np

from t2t_repro.config import unread_by
from t2t_repro.files import write_csv, write_text_atomic
from t2t_repro.study import pictures, verdict
from t2t_repro.study.engine import half_interval
from t2t_repro.study.results import DIVERGED, FREQUENCIES, NOT_FINITE, Results, load
from t2t_repro.study.tables import Column, Table, columns
from t2t_repro.study.variants import Cell, Grid
from t2t_repro.views.pictures import data_uri

_IN_RESULTS = (  # of a cell in results.csv
    *("status", "stopped_at", "initial_loss", "dev_loss", "unigram_loss", "accuracy", "bleu"),
    *("tokens_per_second", "parameters"),
)
_UNREAD = "not read"
_SAME = (
    "Only layer_preprocess_sequence and layer_postprocess_sequence differ between the cells of one "
    "depth, warm-up and seed. tensor2tensor's own transformer_base_v1 (post-norm) and _v2 "
    "(pre-norm) differ in dropout, warm-up and learning rate as well."
)
_WITHOUT = (
    "A warm-up of 0 leaves the rise out: the rate begins at the peak of the set's own warm-up."
)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title><style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right }
.left { text-align: left } img { max-width: 100% } figcaption, .note { color: #555 }
pre { background: #f5f5f5; padding: .6rem; white-space: pre-wrap }
.summary { background: #eef4fa; padding: .8rem 1rem; border-left: 4px solid #0072b2 }
</style></head>
<body><h1>{{ title }}</h1>
{% macro figure(name) %}<figure><img src="{{ images[name] }}" alt="{{ name }}">
<figcaption>{{ captions[name] }}</figcaption></figure>{% endmacro %}
{{ figure(first) }}
{% for text in summary %}<p class="summary">{{ text }}</p>{% endfor %}
{% for text in about %}<p>{{ text }}</p>{% endfor %}
<pre>{{ command }}</pre>
{% for table in tables %}<h2>{{ table.title }}</h2>
<table><tr>{% for heading in table.headings %}<th class="{{ table.aligned[loop.index0] }}">
{{- heading }}</th>{% endfor %}</tr>
{% for row in table.texts %}<tr>{% for text in row %}<td class="{{ table.aligned[loop.index0] }}">
{{- text }}</td>{% endfor %}</tr>{% endfor %}</table>
{% for note in table.notes %}<p class="note">{{ note }}</p>{% endfor %}{% endfor %}
{% for name in captions if name != first %}{{ figure(name) }}{% endfor %}
</body></html>
"""


@dataclasses.dataclass(frozen=True)
class Report:
    """What was written, and its sentences."""

    summary: list[str]
    html: pathlib.Path
    markdown: pathlib.Path
    results: pathlib.Path


def write(grid: Grid, output_dir: pathlib.Path, command: str) -> Report:
    """Writes the report of all finished cells into `output_dir`.

    Args:
        grid: the comparison.
        output_dir: its folder.
        command: the command line that makes it.

    Raises:
        UserError: as `results.load`.
    """
    import jinja2

    results = load(grid, output_dir)
    answers = verdict.verdicts(results)
    said = [each.sentence(grid.train_steps) for each in answers]
    paths = [output_dir / name for name in ("report.html", "report.md", "results.csv")]
    title = grid.title[0].upper() + grid.title[1:]
    tables = [_results_table(results), _differences_table(results), _differing_table(grid)]
    tables += [table for table in [_gradients_table(results)] if table.rows]
    captions = pictures.draw(results, output_dir)
    changed = f" with {grid.hparams}" if grid.hparams else ""
    about = [
        f"{len(results.by_cell)} of {len(grid.cells())} cells: {grid.problem}{changed}, "
        f"{grid.train_steps:,} steps, seeds 0 to {grid.seeds - 1}.",
        _SAME if grid.of_sequences else "Whole sets are compared. The table lists what differs.",
        *([_WITHOUT] if 0 in grid.warmups else []),
    ]
    shown = [f"![{name}]({name})\n\n{caption}" for name, caption in captions.items()]
    parts = [f"# {title}", *shown[:1], *said, *about, f"```\n{command}\n```"]
    parts += [*(table.markdown().rstrip() for table in tables), *shown[1:]]
    write_text_atomic(paths[1], "\n\n".join(parts) + "\n")
    page = jinja2.Environment(autoescape=True).from_string(PAGE)
    images = {name: data_uri((output_dir / name).read_bytes()) for name in captions}
    html = page.render(
        title=title,
        summary=said,
        about=about,
        command=command,
        tables=tables,
        captions=captions,
        images=images,
        first=next(iter(images)),
    )
    write_text_atomic(paths[0], html)
    _write_csvs(output_dir, results)
    return Report(said, *paths)


def _mean(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Returns the mean of those that are known, and half of its interval."""
    known = [value for value in values if value is not None]
    return (statistics.fmean(known), half_interval(known)) if known else (None, None)


def _results_table(results: Results) -> Table:
    rows: list[tuple[Any, ...]] = []
    p_values, signature = results.p_values()
    for depth, warmup in results.grid.settings():
        for name in results.grid.names:
            if cells := results.of(depth=depth, warmup=warmup, variant=name):
                statuses = [r.status for r in cells]
                rows.append(
                    (
                        *(depth, warmup, name, len(cells)),
                        sum(status in (NOT_FINITE, DIVERGED) for status in statuses),
                        statuses.count(FREQUENCIES),
                        *_mean(r.dev_loss for r in cells),
                        _mean(r.accuracy for r in cells)[0],
                        *_mean(r.bleu for r in cells),
                        ", ".join(f"{p_values[r.cell]:.3f}" for r in cells if r.cell in p_values),
                        _mean(r.tokens_per_second for r in cells)[0],
                        cells[0].parameters,
                    )
                )
    return Table(
        "results",
        "Results",
        columns(
            "depth | warm-up :, | of | seeds | diverged | at word frequencies | dev loss :.3f | "
            "± :.3f | accuracy :.4f | BLEU :.2f | ±  :.2f | p | target tokens/s :,.0f | "
            "parameters :,"
        ),
        rows,
        (
            "Dev loss (nats) and accuracy are of all dev tokens at the end. ±: half of the 95 % "
            "interval over the seeds, by Student's t. p: of each seed's BLEU against the first, by "
            f"sacrebleu's paired bootstrap{f' ({signature})' if signature else ''}. Diverged: not "
            "finite, or the last tenth of the training losses above the first. At word "
            "frequencies: no better than a model that knows nothing else.",
        ),
    )


def _differences_table(results: Results) -> Table:
    rows = [
        (
            *(setting, f"{first} less {second}", of.seeds, of.mean, of.half),
            "-" if of.better is None else (first, second)[of.better],
        )
        for setting, first, second, of in verdict.by_setting(results)
    ]
    return Table(
        "differences",
        "Differences in dev loss",
        columns("setting | of | seeds | difference :+.3f | ± :.3f | better"),
        rows,
        ("Seed by seed. Better: the 95 % interval over the seeds leaves zero out.",),
    )


def _differing_table(grid: Grid) -> Table:
    """Returns a row for each hparam that is not the same in all variants, and that one reads."""
    depth, warmup = grid.settings()[0]
    found = [grid.hparams_of(Cell(depth, warmup, name, 0)) for name in grid.names]
    rows = []
    for field in dataclasses.fields(found[0]):
        values = [
            _UNREAD if unread_by(hp.model, field.name) else str(getattr(hp, field.name))
            for hp in found
        ]
        if len(set(values)) > 1 and not all(hp.unread([field.name]) for hp in found):
            rows.append((field.name, *values))
    heads = (Column("hparam"), *(Column(name) for name in grid.names))
    return Table("differing", "What differs", heads, rows)


def _gradients_table(results: Results) -> Table:
    rows: list[tuple[Any, ...]] = []
    for stack in ("encoder", "decoder"):
        for name in results.grid.names:
            points = []
            for depth in results.grid.depths:
                cells = results.of(depth=depth, variant=name)
                last = pictures.layers(results.grid, depth, name)[stack] - 1
                if at := pictures.mean_of([r.gradients[0] for r in cells if r.gradients]):
                    points.append((depth, at[f"{stack}/layer_{last}/ffn"]))
            power = None
            if len(points) > 1:
                depths, norms = np.log(np.array(points, float)).T
                power = float(np.polyfit(depths, norms, 1)[0])
            rows += [(stack, name, depth, value, power) for depth, value in points]
    return Table(
        "gradients",
        "Gradient norm of the last feed-forward sublayer before the first step",
        columns("stack | of | depth | norm :.4f | exponent of the depth :+.2f"),
        rows,
        ("Xiong et al. (2020) expect an exponent of -0.5 for pre-norm and 0 for post-norm.",),
    )


def _write_csvs(output_dir: pathlib.Path, results: Results) -> None:
    cells = [(dataclasses.asdict(cell), r) for cell, r in results.by_cell.items()]
    tables: dict[str, list[dict[str, Any]]] = {
        "results.csv": [
            {**cell, **{name: getattr(r, name) for name in _IN_RESULTS}} for cell, r in cells
        ],
        "curves.csv": [
            {**cell, "curve": kind, "step": step, "loss": loss}
            for cell, r in cells
            for kind, curve in (("train", r.train), ("dev", r.dev))
            for step, loss in curve
        ],
        "norms.csv": [
            {**cell, "step": step, "kind": kind, "place": place, "value": value}
            for cell, r in cells
            for kind, steps in (("gradient", r.gradients), ("activation", r.activations))
            for step, places in steps.items()
            for place, value in places.items()
        ],
    }
    for name, rows in tables.items():
        write_csv(output_dir / name, rows, ".6g")
