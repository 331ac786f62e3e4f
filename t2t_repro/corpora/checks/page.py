"""A report as one HTML file that loads nothing and runs nothing."""

import html
import importlib.resources
import re

from t2t_repro.corpora.checks.report import Finding, Histogram, Report
from t2t_repro.page_policy import page_policy

_BAR, _HEIGHT = 18, 120  # of a chart


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
        "CHARTS": "".join(map(_chart, report.histograms)),
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


def _chart(of: Histogram) -> str:
    """Returns a histogram as SVG: a bar for each range, whose edges stand below."""
    most, width = max([1, *of.counts]), _BAR * len(of.counts)
    bars = []
    for i, (edge, count) in enumerate(zip(of.edges, of.counts, strict=True)):
        height, x = round(_HEIGHT * count / most, 1), i * _BAR
        bars.append(
            f'<rect x="{x + 1}" y="{_HEIGHT - height:g}" width="{_BAR - 2}" height="{height:g}">'
            f"<title>{count:,} from {edge:g}</title></rect>"
        )
        if i % 2 == 0:
            bars.append(f'<text x="{x}" y="{_HEIGHT + 14}">{edge:g}</text>')
    size = f'width="{width}" height="{_HEIGHT + 18}"'
    label = html.escape(of.title)
    return (
        f'<figure><svg {size} role="img" aria-label="{label}">{"".join(bars)}</svg>'
        f"<figcaption>{label}; the highest bar: {most:,}</figcaption></figure>"
    )
