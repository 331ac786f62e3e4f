"""The report of t2t-compare: tables, pictures and sentences, as HTML, Markdown and CSV."""

import dataclasses
import html
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.files import write_csv, write_text_atomic
from t2t_repro.studies.compare import differing, verdict
from t2t_repro.studies.compare import pictures as comparison_pictures
from t2t_repro.studies.compare.cell_result import LEARNED, CellResult
from t2t_repro.studies.compare.grid import Cell, Grid
from t2t_repro.studies.compare.resampling import RESAMPLES, UNCORRECTED
from t2t_repro.studies.compare.results import Bleu, Difference, Results, load
from t2t_repro.studies.compare.variants import against
from t2t_repro.studies.power_law import exponent
from t2t_repro.studies.tables import Table, columns
from t2t_repro.views import pictures

_ENDS = (  # of a cell in results.csv, before and behind its BLEU
    *("status", "diverged_at", "initial_loss", "last_train_loss", "dev_loss", "unigram_loss"),
    "accuracy",
)
_ABOUT = ("tokens_per_second", "parameters", "fingerprint")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right }
th.text, td.text { text-align: left }
img { max-width: 100% } figure { margin: 1.5rem 0 } figcaption, .note { color: #555 }
pre { background: #f5f5f5; padding: .6rem; white-space: pre-wrap }
.summary { background: #eef4fa; padding: .8rem 1rem; border-left: 4px solid #0072b2 }
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
    results = load(grid, output_dir)
    bleus, answers = results.bleus(), verdict.verdicts(results)
    said = [each.sentence(grid.train_steps) for each in answers]
    said += results.summary()
    report = Report(
        said,
        *(output_dir / name for name in ("report.html", "report.md", "results.csv")),
    )
    title = against(grid.variants)
    tables = [
        verdict.table(answers),
        differing.table(grid),
        _settings_table(results, bleus),
        _differences_table(results.differences),
        _failures_table(results),
        _gradients_table(results),
    ]
    captions = comparison_pictures.draw(results, output_dir)
    sets = " and ".join(dict.fromkeys(variant.hparams_set for variant in grid.variants))
    about = [
        f"{len(results.by_cell)} of {len(grid.cells())} cells: {grid.problem}, {sets}"
        + (f" with {grid.hparams}" if grid.hparams else "")
        + f", {grid.train_steps:,} steps, seeds 0 to {grid.seeds - 1}.",
        differing.caveat(grid),
        differing.rates(grid),
    ]
    _write_csvs(output_dir, results, bleus)
    write_text_atomic(report.markdown, _markdown(title, said, about, command, tables, captions))
    page = _html(title, said, about, command, tables, captions, output_dir)
    write_text_atomic(report.html, page)
    return report


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return float(np.mean(known)) if known else None


def _settings_table(results: Results, bleus: Mapping[Cell, Bleu]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for depth, warmup in results.grid.settings():
        target = results.target_loss(depth, warmup)
        for name in results.grid.names:
            cells = results.of(depth=depth, warmup=warmup, variant=name)
            if not cells:
                continue
            losses = _known(r.dev_loss for r in cells)
            rows.append(
                (
                    *(depth, warmup, name, len(cells)),
                    sum(r.diverged_at is not None for r in cells),
                    _mean(losses),
                    f"{min(losses):.3f} to {max(losses):.3f}" if losses else "",
                    _mean(r.accuracy for r in cells),
                    ", ".join(str(bleus[r.cell]) for r in cells if r.cell in bleus),
                    target,
                    None if target is None else _mean(r.steps_to(target) for r in cells),
                    _mean(r.tokens_per_second for r in cells),
                    cells[0].parameters,
                )
            )
    return Table(
        "settings",
        "Results",
        columns(
            "depth | warm-up :, | of | runs | diverged | dev loss :.3f | over seeds | "
            "accuracy :.4f | BLEU | a loss of :.3f | in steps :,.0f | target tokens/s :,.0f | "
            "parameters :,"
        ),
        rows,
        (
            "Dev loss (nats) and accuracy are of the tokens of the whole dev split at the end, "
            "each given those before it. BLEU: each seed's, with half of its 95 % interval and p "
            "against the first variant, by sacrebleu's paired bootstrap"
            + (f" ({next(iter(bleus.values())).signature})" if bleus else "; none was asked for")
            + ". The loss to reach is the highest end of a dev curve of the setting that did not "
            "diverge; the steps to it are read off the curves, on lines between their points. "
            "Tokens/s depend on what else the machine did. Pre-norm has one norm more than "
            "post-norm at the end of each stack: 4 x hidden_size parameters.",
        ),
    )


def _differences_table(pairs: Sequence[Difference]) -> Table:
    rows = [
        (d.depth, d.warmup, f"{d.first} less {d.second}", d.loss, d.low, d.high, d.better or "-")
        for d in pairs
    ]
    return Table(
        "differences",
        "Differences in dev loss",
        columns("depth | warm-up :, | of | difference :+.3f | from :+.3f | to :+.3f | better"),
        rows,
        (
            f"From and to bound 95 % of {RESAMPLES:,} paired bootstrap "
            "resamples of the dev sentences, over all seeds: they say how sure the difference "
            "between these runs is, not how other seeds would end. Better: the dev loss is lower "
            "with every seed, and the interval leaves zero out; a run that diverged counts as "
            "higher than any that did not, and the interval is that of the seeds with which "
            f"neither did (the difference is then not given). {UNCORRECTED}",
        ),
    )


def _failures_table(results: Results) -> Table:
    rows = [
        (
            *(r.cell.depth, r.cell.warmup, r.cell.variant, r.cell.seed),
            *(r.status, r.diverged_at, r.initial_loss, r.last_train_loss),
            *(r.dev_loss, r.unigram_loss),
        )
        for r in results.by_cell.values()
        if r.status != LEARNED
    ]
    return Table(
        "failures",
        "Cells that diverged, or ended no better than word frequencies",
        columns(
            "depth | warm-up :, | of | seed | how | at step :, | initial loss :.3f | "
            "last training loss :.3f | dev loss :.3f | word frequencies :.3f"
        ),
        rows,
        (
            "Not finite: the loss or a gradient was no number, which ends the run before the step "
            "is applied. Diverged: the mean of the last tenth of the reported training losses is "
            "above the loss before the first step; the step is that from which no reported loss "
            "was below it any more, or the last that was above it. At word frequencies: the dev "
            "loss is not below that of a model that knows how frequent each word is in the first "
            "batches and nothing else; the run may have failed, or may need more steps."
            + ("" if rows else " No cell is of these."),
        ),
    )


def _gradients_table(results: Results) -> Table:
    rows: list[tuple[Any, ...]] = []
    for stack in ("encoder", "decoder"):
        for name in results.grid.names:
            points = comparison_pictures.last_gradients(results, stack, name)
            power = exponent(*zip(*points, strict=True)) if len(points) > 1 else None
            rows += [(stack, name, depth, value, power) for depth, value in points]
    return Table(
        "gradients",
        "Gradient norm of the last feed-forward sublayer before the first step",
        columns("stack | of | depth | norm :.4f | exponent of the depth :+.2f"),
        rows,
        (
            "The exponent is the slope of a line through the logarithms. Xiong et al. (2020) "
            "expect -0.5 under pre-norm and 0 under post-norm.",
        ),
    )


def _write_csvs(output_dir: pathlib.Path, results: Results, bleus: Mapping[Cell, Bleu]) -> None:
    def values(cell: Cell, result: CellResult) -> dict[str, Any]:
        score, target = bleus.get(cell), results.target_loss(cell.depth, cell.warmup)
        return {
            **dataclasses.asdict(cell),
            **{name: getattr(result, name) for name in _ENDS},
            "bleu": score and score.score,
            "bleu_interval": score and score.interval,
            "bleu_p_value": score and score.p_value,
            "target_loss": target,
            "steps_to_target": None if target is None else result.steps_to(target),
            **{name: getattr(result, name) for name in _ABOUT},
        }

    cells = [(dataclasses.asdict(cell), r) for cell, r in results.by_cell.items()]
    tables: dict[str, list[dict[str, Any]]] = {
        "results.csv": [values(cell, result) for cell, result in results.by_cell.items()],
        "comparisons.csv": [dataclasses.asdict(d) for d in results.differences],
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


def _markdown(title, said, about, command, tables: Sequence[Table], captions) -> str:
    parts = [f"# {title}", *said, *about, f"```\n{command}\n```"]
    parts += [table.markdown().rstrip() for table in tables]
    parts += [f"![{name}]({name})\n\n{caption}" for name, caption in captions.items()]
    return "\n\n".join(parts) + "\n"


def _html(title, said, about, command, tables, captions, folder: pathlib.Path) -> str:
    figures = (
        f'<figure><img src="{pictures.data_uri((folder / name).read_bytes())}" '
        f'alt="{html.escape(name)}"><figcaption>{html.escape(caption)}</figcaption></figure>'
        for name, caption in captions.items()
    )
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *(f'<p class="summary">{html.escape(text)}</p>' for text in said),
        *(f"<p>{html.escape(text)}</p>" for text in about),
        f"<pre>{html.escape(command)}</pre>",
        *(table.html() for table in tables),
        *figures,
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
