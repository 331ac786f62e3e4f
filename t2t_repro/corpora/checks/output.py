"""The files of a report."""

import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from t2t_repro.corpora import bad_pairs
from t2t_repro.corpora.bad_pairs import BadPair
from t2t_repro.corpora.checks.examine import Corpus
from t2t_repro.corpora.checks.page import page
from t2t_repro.corpora.checks.report import Report
from t2t_repro.files import write_text_atomic


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
