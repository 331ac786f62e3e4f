"""What came out, as one HTML file that loads nothing and runs nothing, and as lines."""

import html
import importlib.resources
import itertools
import json
import pathlib
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from t2t_repro import schema
from t2t_repro.corpora.checks import output
from t2t_repro.decoding import tuned
from t2t_repro.files import write_text_atomic
from t2t_repro.own_text.plan import NO_TRANSLATOR, said, to_the_end
from t2t_repro.own_text.record import plan_of, scores_of
from t2t_repro.page_policy import page_policy
from t2t_repro.progress import took
from t2t_repro.provenance import read
from t2t_repro.run_directory import RunDirectory
from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.stages import Record
from t2t_repro.text import raw
from t2t_repro.views import pictures
from t2t_repro.views.run_view import RunView, view

_SAMPLES = 20
_LABELS = {
    "sacrebleu": "sacreBLEU, cased: the one to report",
    "sacrebleu_lowercase": "sacreBLEU, lower-cased",
    "chrf2": "chrF2",
}
# Readers ask whether a score is good. The rough guide is the one most cited.
_GUIDE = "https://cloud.google.com/translate/automl/docs/evaluate#bleu"
_SAYS = (
    "BLEU is the share of words, and of runs of up to four words, that the translations have from "
    "the references, from 0 to 100. It compares with nothing but BLEU of these same sentences with "
    'the same signature: their sources, copied, score {copied:.2f}. A <a href="{guide}">rough '
    "guide</a>: below 10 it is hardly of use, below 20 even the gist is hard to get, below 30 it "
    "is clear in spite of grave faults of grammar, below 40 translations are understandable to "
    "good, and above that very good."
)


def write(
    path: pathlib.Path,
    folder: pathlib.Path,
    record: Record,
    run: pathlib.Path,
    model: pathlib.Path,
) -> None:
    """Writes the page.

    Args:
        path: of the page.
        folder: of all.
        record: what was done.
        run: the run that was trained.
        model: the run directory that was chosen of it.
    """
    template = importlib.resources.files(__package__).joinpath("page.html")
    text, of = template.read_text(encoding="utf-8"), view(RunDirectory(run))
    found = tuned.read(model)
    values = {
        "POLICY": html.escape(page_policy(text, "img-src data:")),
        "TITLE": html.escape(f"Own text: {folder.name}"),
        "SAID": "<br>".join(map(html.escape, summary(folder, record))),
        "SCORES": _scores(folder, record),
        "SAMPLES": _samples(folder),
        "TEXT": _text(folder, record),
        "PLAN": html.escape(said(plan_of(record))).replace("\n", "<br>"),
        "CURVES": _curves(of),
        "CHOSEN": _chosen(found) if found else "",
        "NEXT": html.escape("\n".join(next_steps(folder, record))),
        "COMMANDS": "".join(
            f"<p>{html.escape(name)} <small>{took(stage.seconds)}</small></p>"
            f"<pre>{html.escape(stage.command)}</pre>"
            for name, stage in record.stages.items()
        ),
    }
    # In one pass, so that a sentence with a mark in it stays a sentence.
    page = re.sub("@([A-Z]+)@", lambda match: values[match[1]], text)
    write_text_atomic(path, page)


def summary(folder: pathlib.Path, record: Record) -> list[str]:
    """Returns what came out, in lines."""
    seconds = sum(stage.seconds for stage in record.stages.values())
    training = record.stages["training"].seconds if "training" in record.stages else 0.0
    lines = [
        f"All {len(record.stages)} stages are done, in {took(seconds)}: the training in "
        f"{took(training)}, the others in {took(seconds - training)}."
    ]
    found = tuned.read(folder / "model")
    if found and found.search.bleu < NO_TRANSLATOR:
        lines.append(
            f"This is no translator yet: {found.search.bleu:.1f} BLEU on dev is below "
            f"{NO_TRANSLATOR:.0f}. {plan_of(record).expects} More text helps, too."
        )
    for name, label in _LABELS.items():
        if name in scores_of(record):
            score = scores_of(record)[name]
            lines.append(f"test: {score['score']:.2f} {label} ({score['signature']})")
    return lines


FEW = 10_000  # pairs; as many captions end at 36.9 BLEU (benchmarks/RESULTS.md)


def next_steps(folder: pathlib.Path, record: Record) -> list[str]:
    """Returns what to do with the model, as commands."""
    plan = plan_of(record)
    place, export = shlex.quote(str(folder / "model")), folder / "export" / "saved_model"
    languages = _check(folder).get("languages", ())
    pair = "-".join(languages) + "=" if all(languages) and len(set(languages)) == 2 else ""
    of_export = read(export)
    steps = [f"t2t-server --model={pair}{shlex.quote(str(export))}"]
    if of_export and of_export.example:
        body = json.dumps({"inputs": of_export.example.source}, ensure_ascii=False)
        steps.append(f"curl http://127.0.0.1:8000/translate -d {shlex.quote(body)}")
    steps += [
        f"t2t-decoder --output_dir={place} --decode_interactive",
        f"t2t-decoder --output_dir={place} --decode_from_file=FILE --decode_to_file=OUT",
        f"t2t-show {shlex.quote(str(folder / 'run'))}",
        f"t2t-show {place} --verify",
        f"t2t-visualize --output_dir={place} --explain={shlex.quote(str(folder / 'explain.html'))}",
    ]
    if plan.train_steps < plan.wanted_steps:
        steps.append(
            f"its set is made for {plan.wanted_steps:,} steps: the same t2t-own-text "
            f"{to_the_end(plan)}"
        )
    if plan.pairs < FEW:
        steps.append(
            f"{plan.pairs:,} pairs are few: docs/own-text.md has fine-tuning of a larger "
            "run, and back-translation of text in the target language"
        )
    return steps


def _check(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the report of the check of the text; {}: there is none."""
    path = output.paths(folder / "data", "text2text_tmpdir").json
    return schema.read(path, dict[str, Any]) if path.exists() else {}


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], best: int | None = None) -> str:
    """Returns a table; numbers stand to the right; row `best` is bold."""

    def cell(value: Any) -> str:
        number = isinstance(value, int | float)
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if number else value
        return f"<td{' class=number' * number}>{html.escape(str(shown))}</td>"

    heads = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = (
        f"<tr{' class=best' * (number == best)}>{''.join(map(cell, row))}</tr>"
        for number, row in enumerate(rows)
    )
    return f"<table><tr>{heads}</tr>{''.join(lines)}</table>"


def _scores(folder: pathlib.Path, record: Record) -> str:
    if not scores_of(record):
        return "<p>There is no test set.</p>"
    rows = [
        (label, scores_of(record)[name]["score"], scores_of(record)[name]["signature"])
        for name, label in _LABELS.items()
    ]
    count = scores_of(record)["sentences"]
    sources, references = (list(raw.lines(path)) for path in _test_files(folder))
    says = _SAYS.format(copied=SacreBleu(references).score(sources), guide=_GUIDE)
    return f"<p>{count:,} sentences.</p>{_table(('score', '', 'signature'), rows)}<p>{says}</p>"


def _test_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [folder / "text" / f"{side}.test.txt" for side in ("inputs", "targets")]


def _samples(folder: pathlib.Path) -> str:
    translations = folder / "test" / "translations.txt"
    if not translations.exists():
        return "<p>There are none without a test set.</p>"
    lines = zip(*map(raw.lines, (*_test_files(folder), translations)), strict=False)
    rows = itertools.islice(lines, _SAMPLES)
    return _table(("source", "reference", "translation"), rows)


def _text(folder: pathlib.Path, record: Record) -> str:
    made: Any = schema.read(folder / "data" / "datagen.text2text_tmpdir.json", dict[str, Any])
    rows = [
        (split, of["examples"], of["tokens"]["inputs"], of["tokens"]["targets"])
        for split, of in made["splits"].items()
    ]
    warnings = "".join(f"<p>{html.escape(each['message'])}</p>" for each in made["warnings"])
    inputs = _table(("raw file", "SHA-256"), record.inputs.items())
    vocabulary = made.get("vocabulary") or {}
    why = f"<p>{made['vocab_size']['targets']:,} subwords. "
    why += f"{html.escape(vocabulary.get('reason', ''))}</p>"
    if check := _check(folder):
        report = output.paths(folder / "data", "text2text_tmpdir").html
        why += f'<p><a href="{report.relative_to(folder)}">What the check of the text found</a>: '
        why += f"{check['bad_pairs']:,} pairs to leave out.</p>"
    heads = ("split", "pairs", "source subwords", "target subwords")
    if scores_of(record):
        rows.append(("test", scores_of(record)["sentences"], "", ""))
    return _table(heads, rows) + why + warnings + inputs


def _curves(of: RunView) -> str:
    """Returns the curves of loss and BLEU as a picture, "" where there are none."""
    if "dev loss" not in of.curves:
        return ""
    figure, (left, right) = pictures.figure(2)
    for name in ("train loss", "dev loss"):
        left.plot(*zip(*of.curves.get(name, [(0, 0.0)]), strict=True), label=name)
    left.legend(fontsize=8)
    right.plot(*zip(*of.curves.get("dev bleu", [(0, 0.0)]), strict=True), marker=".")
    right.set_title("BLEU of dev, decoded greedily")
    for axes in (left, right):
        axes.set_xlabel("step")
    return f'<img alt="curves" src="{pictures.data_uri(pictures.png(figure))}">'


def _chosen(found: tuned.TunedDecoding) -> str:
    weights = [(each.name, each.bleu) for each in found.weights_tried]
    searches = [(each.beam_size, f"{each.alpha:g}", each.bleu) for each in found.searches_tried]
    return (
        f"<p>By {html.escape(found.sentences)} <small>{html.escape(found.signature)}</small></p>"
        + _table(("weights", "BLEU"), weights, found.weights_tried.index(found.weights))
        + _table(("beams", "alpha", "BLEU"), searches, found.searches_tried.index(found.search))
    )
