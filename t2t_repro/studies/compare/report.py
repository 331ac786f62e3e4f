"""The report of t2t-compare: tables, pictures and two sentences, as HTML, Markdown and CSV."""

import dataclasses
import html
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from t2t_repro.files import write_csv, write_text_atomic
from t2t_repro.studies.compare import grid
from t2t_repro.studies.compare import pictures as comparison_pictures
from t2t_repro.studies.compare import results as comparison_results
from t2t_repro.studies.compare.grid import Cell, Plan
from t2t_repro.studies.compare.results import Bleu, Difference, Result
from t2t_repro.studies.tables import Column, Table
from t2t_repro.training import learning_rate
from t2t_repro.views import pictures

_CAVEAT = (
    "Only layer_preprocess_sequence and layer_postprocess_sequence differ between the cells of one "
    "depth, warm-up and seed: initial kernels, batches and their order, dropout seeds and learning "
    "rates are the same. tensor2tensor's own transformer_base_v1 (post-norm) and _v2 (pre-norm) "
    "differ in the dropout of attention and feed-forward, in the warm-up and in the learning rate "
    "as well, so that a comparison of those two sets is not one of post-norm and pre-norm."
)
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
    """What was written, and its two sentences."""

    summary: list[str]
    html: pathlib.Path
    markdown: pathlib.Path
    results: pathlib.Path


def write(plan: Plan, output_dir: pathlib.Path, command: str) -> Report:
    """Writes the report of all finished cells into `output_dir`.

    Args:
        plan: the comparison.
        output_dir: its folder.
        command: the command line that makes it.

    Raises:
        UserError: as `comparison_results.load`.
    """
    results = comparison_results.load(plan, output_dir)
    pairs = comparison_results.differences(plan, results)
    bleus = _bleus(plan, results)
    summary = comparison_results.summary(plan, results, pairs)
    tables = [
        _settings_table(plan, results, pairs, bleus),
        _differences_table(pairs),
        _failures_table(results),
        _gradients_table(plan, results),
    ]
    captions = comparison_pictures.draw(plan, results, output_dir)
    _write_csvs(plan, output_dir, results, pairs, bleus)
    report = Report(
        summary, *(output_dir / name for name in ("report.html", "report.md", "results.csv"))
    )
    about = [
        f"{len(results)} of {len(plan.cells())} cells: {plan.problem}, {plan.hparams_set}"
        + (f" with {plan.hparams}" if plan.hparams else "")
        + f", {plan.train_steps:,} steps, seeds 0 to {plan.seeds - 1}.",
        _CAVEAT,
        _rates(plan),
    ]
    write_text_atomic(report.markdown, _markdown(summary, about, command, tables, captions))
    page = _html(summary, about, command, tables, captions, output_dir)
    write_text_atomic(report.html, page)
    return report


def _bleus(plan: Plan, results: dict[Cell, Result]) -> dict[Cell, Bleu]:
    found: dict[Cell, Bleu] = {}
    for depth, warmup in plan.settings():
        for seed in range(plan.seeds):
            cells = (Cell(depth, warmup, name, seed) for name in plan.sequences)
            found |= comparison_results.bleu([results[cell] for cell in cells if cell in results])
    return found


def _rates(plan: Plan) -> str:
    """Returns a sentence about the learning rates of each warm-up."""
    parts = []
    for warmup in plan.warmups:
        cell = Cell(plan.depths[0], warmup, plan.sequences[0], 0)
        hparams = grid.hparams_of(plan, cell)
        rates = learning_rate.schedule(hparams)
        peak = min(hparams.learning_rate_warmup_steps, plan.train_steps - 1)
        first, highest, last = (float(rates(step)) for step in (1, peak, plan.train_steps - 1))
        schedule = hparams.learning_rate_schedule
        parts.append(
            f"warm-up {warmup:,}: {first:.2e} at the second step, {highest:.2e} at its highest, "
            f"{last:.2e} at the last ({schedule})"
        )
    return (
        f"Learning rate with {'; with '.join(parts)}. A warm-up of 0 leaves the rise out and keeps "
        "the rest: the rate begins at the peak of the set's own warm-up, stays there as long, and "
        "falls then."
    )


def _of(results: dict[Cell, Result], depth: int, warmup: int, name: str) -> list[Result]:
    wanted = (depth, warmup, name)
    return [r for c, r in results.items() if (c.depth, c.warmup, c.sequences) == wanted]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _range(values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):{form}} to {max(known):{form}}" if known else ""


def _settings_table(plan, results, pairs, bleus) -> Table:
    rows: list[tuple[Any, ...]] = []
    for depth, warmup in plan.settings():
        setting = [r for n in plan.sequences for r in _of(results, depth, warmup, n)]
        target = comparison_results.target_loss(setting)
        for name in plan.sequences:
            found = _of(results, depth, warmup, name)
            if not found:
                continue
            scores = [bleus[r.cell] for r in found if r.cell in bleus]
            steps = [r.steps_to(target) for r in found] if target is not None else []
            rows.append(
                (
                    *(depth, warmup, name, len(found)),
                    sum(r.diverged_at is not None for r in found),
                    _mean(r.dev_loss for r in found),
                    _range((r.dev_loss for r in found), ".3f"),
                    _mean(r.accuracy for r in found),
                    _bleu_text(scores),
                    target,
                    _mean(steps),
                    _mean(r.tokens_per_second for r in found),
                    found[0].parameters,
                )
            )
    return Table(
        "settings",
        "Results",
        (
            *(Column("depth"), Column("warm-up", "{:,}"), Column("sequences"), Column("runs")),
            *(Column("diverged"), Column("dev loss", "{:.3f}"), Column("over seeds")),
            *(Column("accuracy", "{:.4f}"), Column("BLEU")),
            *(Column("a loss of", "{:.3f}"), Column("in steps", "{:,.0f}")),
            *(Column("target tokens/s", "{:,.0f}"), Column("parameters", "{:,}")),
        ),
        rows,
        (
            "Dev loss (nats) and accuracy are of the tokens of the whole dev split at the end, "
            "each given those before it. BLEU: each seed's, with half of its 95 % interval and p "
            "against the first sequences, by sacrebleu's paired bootstrap"
            + (f" ({next(iter(bleus.values())).signature})" if bleus else "; none was asked for")
            + ". The loss to reach is the highest end of a dev curve of the setting that did not "
            "diverge; the steps to it are read off the curves, on lines between their points. "
            "Tokens/s depend on what else the machine did. Pre-norm has one norm more than "
            "post-norm at the end of each stack: 4 x hidden_size parameters.",
        ),
    )


def _bleu_text(scores: Sequence[Bleu]) -> str:
    texts = []
    for s in scores:
        p = "" if s.p_value is None else f" (p = {s.p_value:.3f})"
        texts.append(f"{s.score:.1f} ± {s.interval:.1f}{p}")
    return ", ".join(texts)


def _differences_table(pairs: Sequence[Difference]) -> Table:
    rows = [
        (d.depth, d.warmup, f"{d.first} less {d.second}", d.loss, d.low, d.high, d.better or "-")
        for d in pairs
    ]
    return Table(
        "differences",
        "Differences in dev loss",
        (
            *(Column("depth"), Column("warm-up", "{:,}"), Column("of")),
            *(Column(name, "{:+.3f}") for name in ("difference", "from", "to")),
            Column("better"),
        ),
        rows,
        (
            f"From and to bound 95 % of {comparison_results.RESAMPLES:,} paired bootstrap "
            "resamples of the dev sentences, over all seeds: they say how sure the difference "
            "between these runs is, not how other seeds would end. Better: the dev loss is lower "
            "with every seed, and the interval leaves zero out; or only the other one diverged "
            "(then there is no difference to give).",
        ),
    )


def _failures_table(results: dict[Cell, Result]) -> Table:
    failed = [r for r in results.values() if r.status != comparison_results.LEARNED]
    rows = [
        (
            *(r.cell.depth, r.cell.warmup, r.cell.sequences, r.cell.seed),
            *(r.status, r.diverged_at, r.initial_loss, r.last_train_loss),
            *(r.dev_loss, r.unigram_loss),
        )
        for r in failed
    ]
    names = ("initial loss", "last training loss", "dev loss", "word frequencies")
    return Table(
        "failures",
        "Cells that diverged, or ended no better than word frequencies",
        (
            *(Column("depth"), Column("warm-up", "{:,}"), Column("sequences"), Column("seed")),
            *(Column("how"), Column("at step", "{:,}")),
            *(Column(name, "{:.3f}") for name in names),
        ),
        rows,
        (
            "Not finite: the loss or a gradient was no number, which ends the run before the step "
            "is applied. Diverged: the mean of the last tenth of the reported training losses is "
            "above the loss before the first step; the step is that from which no reported loss "
            "was below it any more. At word frequencies: the dev loss is not below that of a model "
            "that knows how frequent each word is in the first batches and nothing else; the run "
            "may have failed, or may need more steps." + ("" if rows else " No cell is of these."),
        ),
    )


def _gradients_table(plan: Plan, results: dict[Cell, Result]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for stack in ("encoder", "decoder"):
        for name in plan.sequences:
            points = comparison_pictures.last_gradients(plan, results, stack, name)
            exponent = fitted_exponent(points)
            rows += [(stack, name, depth, value, exponent) for depth, value in points]
    return Table(
        "gradients",
        "Gradient norm of the last feed-forward sublayer before the first step",
        (
            *(Column("stack"), Column("sequences"), Column("depth")),
            *(Column("norm", "{:.4f}"), Column("exponent of the depth", "{:+.2f}")),
        ),
        rows,
        (
            "The exponent is the slope of a line through the logarithms. Xiong et al. (2020) "
            "expect -0.5 under pre-norm and 0 under post-norm.",
        ),
    )


def fitted_exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """Returns b of the best value = a * depth**b, by least squares of logarithms."""
    if len(points) < 2:
        return None
    logarithms = np.log(np.array(points))
    return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])


def _write_csvs(plan, output_dir: pathlib.Path, results, pairs, bleus) -> None:
    rows = []
    for cell, r in results.items():
        score = bleus.get(cell)
        here = [s for c, s in results.items() if (c.depth, c.warmup) == (cell.depth, cell.warmup)]
        target = comparison_results.target_loss(here)
        rows.append(
            {
                **dataclasses.asdict(cell),
                "status": r.status,
                "diverged_at": r.diverged_at,
                "initial_loss": r.initial_loss,
                "last_train_loss": r.last_train_loss,
                "dev_loss": r.dev_loss,
                "unigram_loss": r.unigram_loss,
                "accuracy": r.accuracy,
                "bleu": score and score.score,
                "bleu_interval": score and score.interval,
                "bleu_p_value": score and score.p_value,
                "target_loss": target,
                "steps_to_target": None if target is None else r.steps_to(target),
                "tokens_per_second": r.tokens_per_second,
                "parameters": r.parameters,
                "fingerprint": r.fingerprint,
            }
        )
    write_csv(output_dir / "results.csv", rows, ".6g")
    write_csv(output_dir / "comparisons.csv", [dataclasses.asdict(d) for d in pairs], ".6g")
    curves = [
        {**dataclasses.asdict(cell), "curve": kind, "step": step, "loss": loss}
        for cell, r in results.items()
        for kind, curve in (("train", r.train), ("dev", r.dev))
        for step, loss in curve
    ]
    write_csv(output_dir / "curves.csv", curves, ".6g")
    measured = [
        {**dataclasses.asdict(cell), "step": step, "kind": kind, "place": place, "value": value}
        for cell, r in results.items()
        for kind, steps in (("gradient", r.gradients), ("activation", r.activations))
        for step, places in steps.items()
        for place, value in places.items()
    ]
    write_csv(output_dir / "norms.csv", measured, ".6g")


def _markdown(summary, about, command, tables: Sequence[Table], captions: dict[str, str]) -> str:
    parts = ["# Post-norm against pre-norm", " ".join(summary), *about, f"```\n{command}\n```"]
    parts += [table.markdown().rstrip() for table in tables]
    parts += [f"![{name}]({name})\n\n{caption}" for name, caption in captions.items()]
    return "\n\n".join(parts) + "\n"


def _html(summary, about, command, tables, captions, folder: pathlib.Path) -> str:
    parts = [
        "<h1>Post-norm against pre-norm</h1>",
        f'<p class="summary">{html.escape(" ".join(summary))}</p>',
        *(f"<p>{html.escape(text)}</p>" for text in about),
        f"<pre>{html.escape(command)}</pre>",
        *map(_html_table, tables),
    ]
    for name, caption in captions.items():
        source = pictures.data_uri((folder / name).read_bytes())
        parts.append(
            f'<figure><img src="{source}" alt="{html.escape(name)}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Post-norm against pre-norm</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _html_table(table: Table) -> str:
    def row(tag: str, cells: Iterable[str], values: Sequence[Any]) -> str:
        texts = (
            f"<{tag}{' class=text' if isinstance(v, str) else ''}>{html.escape(c)}</{tag}>"
            for c, v in zip(cells, values, strict=True)
        )
        return f"<tr>{''.join(texts)}</tr>"

    first = table.rows[0] if table.rows else [""] * len(table.columns)
    lines = [row("th", [column.heading for column in table.columns], first)]
    for values in table.rows:
        cells = [c.write(v) for c, v in zip(table.columns, values, strict=True)]
        lines.append(row("td", cells, values))
    notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in table.notes)
    return f"<h2>{html.escape(table.title)}</h2><table>{''.join(lines)}</table>{notes}"
