"""Pairs of sentences in whatever form people have them: two files, or one that holds both sides.

Every reader holds a line or an element in memory, never a file, and names file and line of what it
cannot read. A line break within a sentence becomes a space.
"""

import csv
import html.entities
import json
import os
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import DefusedXMLParser, iterparse

from t2t_repro import progress
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.errors import UserError
from t2t_repro.text import raw

_HEADERS = (("source", "target"), ("src", "tgt"), ("src", "trg"))
_SHOWN = 60  # characters of what was received
_QUOTED = re.compile(r'"[^"]*(?:"|$)')  # a field of CSV, or what of it is on its first line
# In TMX: markup of a format, which is no text, and the kinds that break lines, pages and columns.
_MARKUP, _BREAKS = {"bpt", "ept", "it", "ph", "ut"}, {"lb", "pb", "cb"}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Sides(NamedTuple):
    """How a file that holds both sides tells them apart: codes of languages, names of columns."""

    languages: tuple[str, str] | None = None
    columns: tuple[str, str] | None = None


Reader = Callable[[str | os.PathLike, Sides], Iterator[Pair]]


def reader_of(source: str | os.PathLike, target: str | os.PathLike | None) -> Reader | None:
    """Returns what reads a file that holds both sides; None: there are two, side by side.

    Raises:
        UserError: on a file that needs another, or has one that it does not need.
    """
    readers = [
        READERS.get(pathlib.Path(os.fspath(path).removesuffix(".gz")).suffix.lower())
        for path in (source, target)
        if path is not None
    ]
    if target is not None and any(readers):
        raise UserError(
            "Expected one file for both sides, or two of one sentence a line. Received: "
            f"{os.fspath(source)} and {os.fspath(target)}. Leave one out, or rename it to .txt."
        )
    if target is not None or readers[0]:
        return readers[0]
    if b"\t" in next(iter(raw.raw_lines(source)), b""):
        return _tsv_pairs
    raise UserError(
        f"Expected the other side of {os.fspath(source)}, or a file that holds both sides: "
        f"{', '.join(READERS)}. Received: neither. Name its targets too."
    )


def pairs(
    source: str | os.PathLike, target: str | os.PathLike | None, sides: Sides
) -> Iterator[Pair]:
    """Yields the pairs of two files side by side, or of one that holds both sides.

    Args:
        source: the file.
        target: its other side; None: `source` holds both.
        sides: how they are told apart.

    Raises:
        UserError: naming the file, and the line where there is one.
    """
    reader = reader_of(source, target)
    return reader(source, sides) if reader else _lines(source, target or "")


def _lines(source: str | os.PathLike, target: str | os.PathLike) -> Iterator[Pair]:
    for number, sample in enumerate(raw.parallel_lines(source, target), start=1):
        yield (
            raw.one_line(sample["inputs"], source, number),
            raw.one_line(sample["targets"], target, number),
        )


def _tsv_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    rows = ((number, line.split("\t")) for number, line in enumerate(raw.lines(path), start=1))
    return _table_pairs(path, rows, sides, headless=True)


def _csv_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    return _table_pairs(path, _csv_rows(path), sides, headless=False)


def _csv_rows(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    unquoted = _QUOTED.sub("", next(raw.lines(path), ""))
    delimiter = max(",;\t", key=unquoted.count)
    table = csv.reader((f"{line}\n" for line in raw.lines(path)), delimiter=delimiter, strict=True)
    number = 1
    try:
        for row in table:
            yield number, row
            number = table.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"Expected CSV in {os.fspath(path)}. Received: in the row from line {number} on, "
            f"{error}. Fix its quotes: a quote within a quoted field is written twice."
        ) from error


def _table_pairs(
    path: str | os.PathLike,
    rows: Iterable[tuple[int, list[str]]],
    sides: Sides,
    headless: bool,
) -> Iterator[Pair]:
    width, picked = 0, (0, 1)
    for number, row in rows:
        if row in ([], [""]):
            continue
        if not width:
            width = len(row)
            picked, header = _columns(path, row, sides, headless)
            if header:
                continue
        if len(row) != width:
            raise UserError(
                f"Expected {width} columns at line {number} of {os.fspath(path)}, as many as its "
                f"first line has. Received: {len(row)}: {_shown(row)}. Fix that line."
            )
        source, target = (raw.one_line(row[column], path, number) for column in picked)
        yield source, target


def _columns(
    path: str | os.PathLike, first: Sequence[str], sides: Sides, headless: bool
) -> tuple[tuple[int, int], bool]:
    """Returns which columns hold the sides, and whether the first row is a header."""
    names = [cell.strip().casefold() for cell in first]
    wanted = sides.columns
    numbered = wanted is not None and wanted[0].isdecimal()
    known = [tuple(map(str.casefold, each)) for each in _names(sides, numbered)]
    if wanted and numbered:
        source, target = (int(name) - 1 for name in wanted)
        if 0 <= min(source, target) and max(source, target) < len(first):
            return (source, target), (names[source], names[target]) in known
    else:
        for each in known:
            if names.count(each[0]) and names.count(each[1]):
                return (names.index(each[0]), names.index(each[1])), True
        if not wanted and headless and len(first) == 2:
            return (0, 1), False
    raise UserError(
        f"Expected the columns {' and '.join(wanted or _HEADERS[0])} in the first line of "
        f"{os.fspath(path)}. Received: {len(first)} columns: {_shown(first)}. Name them by "
        "--columns: by their names, or, where this line is a pair itself, by their numbers, such "
        "as 1,2."
    )


def _json_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    for number, line in enumerate(raw.lines(path), start=1):
        if not line.strip():
            continue
        try:
            texts = _texts_of(json.loads(line), sides)
        except ValueError:
            texts = []
        if not texts:
            raise UserError(
                "Expected a JSON object with the texts "
                f"{' and '.join(sides.columns or _HEADERS[0])} on line {number} of "
                f"{os.fspath(path)}. Received: {line[:_SHOWN]}. Name them by --columns, or by "
                "--source_language and --target_language; of an array, jq -c '.[]' makes lines."
            )
        source, target = (raw.one_line(text, path, number) for text in texts)
        yield source, target


def _names(sides: Sides, any_name: bool = False) -> list[tuple[str, str]]:
    """Returns the names of both sides to look for: those that were given, or else the usual."""
    if sides.columns and not any_name:
        return [sides.columns]
    return [*filter(None, [sides.languages]), *_HEADERS]


def _texts_of(entry: Any, sides: Sides) -> list[str]:
    """Returns the source and the target of an object; none where it has not both."""
    inner = entry.get("translation") if isinstance(entry, dict) else None
    for names in _names(sides):
        for place in (entry, inner if names == sides.languages else None):
            texts: list[Any] = [place.get(n) for n in names] if isinstance(place, dict) else []
            if texts and all(isinstance(text, str) for text in texts):
                return texts
    return []


def _tmx_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    """Yields of each <tu> of a TMX file the segments of two languages.

    A code such as "en" also stands for "en-GB". Units that lack a side are left out, and counted.
    """
    name, count, skipped = os.fspath(path), 0, 0
    codes: Counter[str] = Counter()
    with raw.opened(path) as stream:
        for count, unit in enumerate(_units(stream, name), start=1):
            segments = [
                (variant.get(_LANGUAGE) or variant.get("lang") or "", "".join(_segment_text(part)))
                for variant in unit
                for part in variant
                if _tag(variant) == "tuv" and _tag(part) == "seg"
            ]
            codes.update(code for code, _ in segments)
            if sides.languages is None:
                raise UserError(
                    f"Expected --source_language and --target_language, of those in {name}: "
                    f"{', '.join(codes)}. Received: none."
                )
            source, target = (
                raw.one_line(_segment(segments, language, name, count), path, count)
                for language in sides.languages
            )
            if source and target:
                yield source, target
            else:
                skipped += 1
    seen = f"its languages are {', '.join(code for code, _ in codes.most_common(8)) or 'none'}"
    if skipped == count:
        raise UserError(
            f"Expected <tu> with text on both sides in {name}. Received: {skipped} without a pair; "
            f"{seen}. Check the file, --source_language and --target_language."
        )
    if skipped:
        progress.on_stderr(
            f"{name}: left out {skipped:,} units without text on both sides; {seen}."
        )


def _units(stream: IO[bytes], name: str) -> Iterator[Element]:
    """Yields every <tu>; holds one of them. Entities that a file declares are refused."""
    parser = DefusedXMLParser()
    parser.entity.update(html.entities.entitydefs)  # a document type elsewhere is not read
    parents: list[Element] = []
    try:
        for event, element in iterparse(stream, ("start", "end"), parser):
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if _tag(element) == "tu":
                yield element
                if parents:
                    parents[-1].clear()
    except (ParseError, ValueError, LookupError) as error:  # the last, of unknown encodings
        raise UserError(
            f"Expected XML in UTF-8, without entities of its own, in {name}. Received: "
            f"{error!r}. Fix it, or get it again."
        ) from error


def _segment_text(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if _tag(child) not in _MARKUP:
            yield from _segment_text(child)
        elif child.get("type") in _BREAKS:
            yield "\n"  # where words do not grow together
        yield child.tail or ""


def _segment(segments: list[tuple[str, str]], language: str, name: str, number: int) -> str:
    """Returns the text of a language, "" where there is none."""
    wanted = _code(language)
    near = [each for each in segments if _code(each[0]) == wanted]
    near = near or [each for each in segments if _code(each[0]).startswith(f"{wanted}-")]
    if len({code for code, _ in near}) > 1:
        raise UserError(
            f"Expected one segment of {language} in <tu> {number} of {name}. Received: "
            f"{', '.join(code for code, _ in near)}. Name one of them by --source_language or "
            "--target_language."
        )
    return near[0][1] if near else ""


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _code(language: str) -> str:
    return language.casefold().replace("_", "-")


def _shown(row: Sequence[str]) -> str:
    text = " | ".join(row)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


# What reads which; .gz may stand behind all of them.
READERS: dict[str, Reader] = {
    **dict.fromkeys((".tsv", ".tab"), _tsv_pairs),
    ".csv": _csv_pairs,
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json_pairs),
    ".tmx": _tmx_pairs,
}
