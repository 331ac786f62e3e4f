"""The files of a report: JSON, a page that loads nothing and runs nothing, and the bad pairs."""

import html
import importlib.resources
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from t2t_repro.corpora import bad_pairs
from t2t_repro.corpora.bad_pairs import BadPair
from t2t_repro.corpora.checks.examine import Corpus
from t2t_repro.corpora.checks.report import Finding, Report
from t2t_repro.files import write_text_atomic
from t2t_repro.page_policy import page_policy


class Paths(NamedTuple):
    """Where a report lies: for programs, for people, and the pairs that are left out."""

    json: pathlib.Path
    html: pathlib.Path
    bad_pairs: pathlib.Path


def paths(folder: str | os.PathLike, name: str) -> Paths:
    """Returns the files of the report of the problem of that name."""
    start = pathlib.Path(folder, f"datagen.{name}.report")
    json_path, html_path = (start.with_name(start.name + end) for end in (".json", ".html"))
    return Paths(json_path, html_path, bad_pairs.path_of(folder, name))


def write_report(to: Paths, report: Report, title: str, **more: Any) -> None:
    """Writes the report as JSON and as a page; `more` goes into the JSON."""
    text = json.dumps(report.as_dict() | more, ensure_ascii=False, indent=1)
    write_text_atomic(to.json, text + "\n")
    write_text_atomic(to.html, page(report, title))


def write_bad_pairs(
    to: Paths, report: Report, corpus: Corpus, check: Callable[[str], None] | None = None
) -> None:
    """Writes the pairs that are to be left out; reads the corpus once more for it.

    `check` is as `bad_pairs.write` takes it.
    """
    bad_pairs.write(to.bad_pairs, _bad_pairs(report, corpus), check)


def _bad_pairs(report: Report, corpus: Corpus) -> Iterator[BadPair]:
    for split, read in corpus.items():
        bad: Iterable = report.bad_pairs(split)
        wanted = next(bad := iter(bad), None)
        for line, (source, target) in enumerate(read(), start=1):
            if wanted is None:
                break
            if line == wanted[0]:
                yield BadPair(split, line, wanted[1], source, target)
                wanted = next(bad, None)


def page(report: Report, title: str) -> str:
    """Returns the page.

    Args:
        report: what it shows.
        title: above it.
    """
    template = importlib.resources.files(__package__).joinpath("page.html")
    text = template.read_text(encoding="utf-8")
    pairs = " and ".join(f"{count:,} {split}" for split, count in report.pairs.items())
    said = f"{pairs} pairs, {' to '.join(filter(None, report.languages))}. --drop_bad_pairs leaves "
    said += f"out {report.num_bad_pairs():,}. A line of the list opens on the first pairs."
    found = [each for each in report.findings if each.count]
    clean = [each.check.name for each in report.findings if not each.count]
    values = {
        "POLICY": html.escape(page_policy(text)),
        "TITLE": html.escape(title),
        "SAID": html.escape(said),
        "NOTES": "".join(f"<p>{html.escape(note)}</p>" for note in report.notes),
        "FINDINGS": "".join(map(_finding, found)) + f"<p>Nothing: {', '.join(clean)}.</p>",
    }
    # In one pass, so that a sentence with a mark in it stays a sentence.
    return re.sub("@([A-Z]+)@", lambda match: values[match[1]], text)


def _finding(each: Finding) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(e.split)} {e.line}</td><td>{html.escape(e.source)}</td>"
        f"<td>{html.escape(e.target)}</td></tr>"
        for e in each.first
    )
    return (
        f'<details><summary><i class="{each.severity}">{each.severity}</i> '
        f"<b>{html.escape(each.check.name)}</b> <u>{each.count:,} ({each.share:.2%})</u> "
        f"{html.escape(each.check.text)}</summary><table><tr><th>line</th><th>source</th>"
        f"<th>target</th></tr>{rows}</table></details>"
    )
