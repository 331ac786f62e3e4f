"""A report: a picture, then tables, as HTML, Markdown and JSON; and that of t2t-compare."""

import dataclasses
import importlib.resources
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_repro.files import write_csv, write_json, write_text_atomic
from t2t_repro.study import verdict
from t2t_repro.study.results import DIVERGED, FREQUENCIES, NOT_FINITE, Results, mean_and_half
from t2t_repro.study.study import Study
from t2t_repro.study.tables import Table
from t2t_repro.views.pictures import data_uri

_IN_RESULTS = (  # of a run in results.csv
    *("seed", "status", "stopped_at", "initial_loss", "dev_loss", "unigram_loss", "accuracy"),
    *("bleu", "tokens_per_second", "parameters"),
)


def write(
    folder: pathlib.Path,
    name: str,
    title: str,
    tables: Sequence[Table],
    about: str,
    command: str,
    captions: Mapping[str, str],
    lead: Sequence[str] = (),
) -> pathlib.Path:
    """Writes NAME.html, which loads nothing, NAME.md and NAME.json; returns the first.

    Args:
        folder: where to, and where the pictures are.
        name, title: of the report.
        tables: all of them.
        about: a sentence on the tables.
        command: the command line that makes them.
        captions: {picture: what it shows}; the first stands above the tables.
        lead: the conclusions, in paragraphs, above everything.
    """
    import jinja2

    folder.mkdir(parents=True, exist_ok=True)
    values = {table.name: table.as_dict() for table in tables}
    write_json(folder / f"{name}.json", values)
    first, *others = [f"![{file}]({file})\n\n{text}" for file, text in captions.items()] or [""]
    parts = [f"# {title}", *lead, first, *(table.markdown() for table in tables), about]
    text = "\n\n".join(filter(None, [*parts, f"```\n{command}\n```", *others]))
    write_text_atomic(folder / f"{name}.md", f"{text}\n")
    template = importlib.resources.files(__package__).joinpath("report.html")
    page = jinja2.Environment(autoescape=True).from_string(template.read_text(encoding="utf-8"))
    images = {file: data_uri((folder / file).read_bytes()) for file in captions}
    said = {"title": title, "about": about, "command": command, "captions": captions, "lead": lead}
    write_text_atomic(folder / f"{name}.html", page.render(tables=tables, images=images, **said))
    return folder / f"{name}.html"


def comparison(results: Results) -> str:
    """Writes t2t-compare's report of the finished runs; returns the conclusions."""
    from t2t_repro.study import pictures

    study, folder = results.study, results.study.output_dir
    better = verdict.table(results)
    steps = study.variants[0].hparams.train_steps
    about = (
        f"{len(results.cells)} of {len(study.cells())} runs are finished: {steps:,} steps each on "
        f"{study.problem}. Post-norm and pre-norm with the same setting and seed differ only in "
        "the place of the norm: after or before each sublayer. With a warm-up of 0 the learning "
        "rate begins at the peak of the set's own warm-up."
    )
    tables = [better, _results_table(results), _differing_table(study)]
    title, captions = " against ".join(study.names), pictures.draw(results, folder)
    lead = verdict.sentences(results, better)
    write(folder, "report", title, tables, about, study.command, captions, lead)
    rows = []
    for r in results.cells:
        axes = {name: getattr(r.variant, name) for name in ("depth", "warmup", "name")}
        rows.append(axes | {name: getattr(r, name) for name in _IN_RESULTS})
    write_csv(folder / "results.csv", rows, ".6g")
    return "\n\n".join([*lead, better.markdown()])


def _results_table(results: Results) -> Table:
    rows: list[tuple[Any, ...]] = []
    signatures = set()
    for (depth, warmup), name in itertools.product(results.study.settings, results.study.names):
        cells = results.select(depth=depth, warmup=warmup, name=name)
        if not cells:
            continue
        statuses = [r.status for r in cells]
        p_values, signature = results.p_values(cells, results.study.names[0])
        signatures.add(signature)
        rows.append(
            (
                *(depth, warmup, name, len(cells)),
                sum(status in (NOT_FINITE, DIVERGED) for status in statuses),
                statuses.count(FREQUENCIES),
                *mean_and_half(r.dev_loss for r in cells),
                mean_and_half(r.accuracy for r in cells)[0],
                *mean_and_half(r.bleu for r in cells),
                ", ".join(f"{value:.3f}" for value in p_values),
                mean_and_half(r.tokens_per_second for r in cells)[0],
                cells[0].parameters,
            )
        )
    return Table(
        "results",
        "Results",
        "depth | warm-up :, | variant | seeds | diverged | at word frequencies | dev loss :.3f | "
        "± :.3f | accuracy :.4f | BLEU :.2f | ±  :.2f | p | target tokens/s :,.0f | parameters :,",
        rows,
        (
            "Dev loss (nats) and accuracy are over all dev tokens, after the last step. ±: half of "
            "the 95 % interval over the seeds, by Student's t. diverged: the loss was not finite, "
            "or its mean over the last tenth of the steps exceeds the loss before step 1. at word "
            "frequencies: no better than a model that knows only word frequencies.",
            *(
                f"p: each seed against the first variant, by sacrebleu's paired bootstrap: {each}."
                for each in sorted(filter(None, signatures))
            ),
        ),
    )


def _differing_table(study: Study) -> Table:
    """Returns a row for each hparam that is not the same in all variants, and that one reads."""
    found = {variant.name: variant.hparams for variant in reversed(study.variants)}
    settings = [found[name] for name in study.names]
    rows = []
    for field in dataclasses.fields(settings[0]):
        values = [
            "not read" if hp.unused([field.name]) else str(getattr(hp, field.name))
            for hp in settings
        ]
        if len(set(values)) > 1:
            rows.append((field.name, *values))
    return Table("differing", "What differs", " | ".join(["hparam", *study.names]), rows)
