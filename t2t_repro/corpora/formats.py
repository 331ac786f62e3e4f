"""Pairs of sentences in several formats: two files, or one with both sides.

Every reader holds a line or an element in memory, never a file, and names file and line in errors.
A line break within a sentence becomes a space.
"""

import csv
import html.entities
import json
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
    """How to tell apart the sides of one file: language codes, column names."""

    languages: tuple[str, str] | None = None
    columns: tuple[str, str] | None = None

    def names(self) -> list[tuple[str, str]]:
        """Returns the names of both sides: the given ones, or else the usual."""
        numbered = self.columns and self.columns[0].isdecimal()
        if self.columns and not numbered:
            return [self.columns]
        return [*filter(None, [self.languages]), *_HEADERS]


Reader = Callable[[str, Sides], Iterable[Sequence[str]]]


def reader_of(source: str, target: str | None) -> Reader | None:
    """Returns the reader of a file with both sides; None: there are two files.

    Raises:
        UserError: on a file that needs another, or has one that it does not need.
    """
    ours, others = (
        READERS.get(pathlib.Path(path.removesuffix(".gz")).suffix.lower())
        for path in (source, target or "")
    )
    if target is None and not ours and b"\t" in next(iter(raw.raw_lines(source)), b""):
        return _tsv_pairs
    if bool(target) == bool(ours or others):
        received = f"{source} and {target}" if target else source
        raise UserError(
            "Expected two files with one sentence a line, or one file with both sides "
            f"({', '.join(READERS)}). Received: {received}. Add the target file, or give one "
            "file alone whose name has such an ending."
        )
    return ours


def pairs(source: str, target: str | None, sides: Sides) -> Iterator[Pair]:
    """Yields the pairs of two files side by side, or of one that holds both sides.

    Args:
        source: the file.
        target: its other side; None: `source` holds both.
        sides: how to tell them apart.

    Raises:
        UserError: naming the file, and the line where there is one.
    """
    reader = reader_of(source, target)
    lines = (each.values() for each in raw.parallel_lines(source, target or ""))
    for one, other in reader(source, sides) if reader else lines:
        yield raw.joined(one), raw.joined(other)


def _tsv_pairs(path: str, sides: Sides) -> Iterator[Pair]:
    rows = ((number, line.split("\t")) for number, line in enumerate(raw.lines(path), start=1))
    return _table_pairs(path, rows, sides, headless=True)


def _csv_pairs(path: str, sides: Sides) -> Iterator[Pair]:
    return _table_pairs(path, _csv_rows(path), sides, headless=False)


def _csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
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
            f"Expected valid CSV in {path}. Received: an error in the row at line {number}: "
            f"{error}. Fix the quotes: inside a quoted field, write a quote twice."
        ) from error


def _table_pairs(
    path: str, rows: Iterable[tuple[int, list[str]]], sides: Sides, headless: bool
) -> Iterator[Pair]:
    width = 0
    for number, row in rows:
        if row in ([], [""]):
            continue
        if not width:
            width = len(row)
            source, target, is_header = _columns(path, row, sides, headless)
            if is_header:
                continue
        if len(row) != width:
            raise UserError(
                f"Expected {width} columns in line {number} of {path}, as in its first line. "
                f"Received: {len(row)} columns: {' | '.join(row)[:_SHOWN]!r}. Fix line {number}."
            )
        yield row[source], row[target]


def _columns(
    path: str, first: Sequence[str], sides: Sides, headless: bool
) -> tuple[int, int, bool]:
    """Returns which columns hold the sides, and whether the first row is a header."""
    cells, wanted = [cell.strip().casefold() for cell in first], sides.columns
    headers = [(source.casefold(), target.casefold()) for source, target in sides.names()]
    if wanted and wanted[0].isdecimal():
        source, target = (int(number) - 1 for number in wanted)
        if 0 <= min(source, target) and max(source, target) < len(cells):
            return source, target, (cells[source], cells[target]) in headers
    else:
        for header in headers:
            if set(header) <= set(cells):
                return cells.index(header[0]), cells.index(header[1]), True
        if not wanted and headless and len(cells) == 2:
            return 0, 1, False
    raise UserError(
        f"Expected the columns {' and '.join(wanted or _HEADERS[0])} in the first line of {path}. "
        f"Received: {len(first)} columns: {' | '.join(first)[:_SHOWN]!r}. Set --columns to "
        "two names in the header or, without a header, to two column numbers, such as 1,2."
    )


def _json_pairs(path: str, sides: Sides) -> Iterator[Sequence[str]]:
    for number, line in enumerate(raw.lines(path), start=1):
        if not line.strip():
            continue
        try:
            texts = _texts_of(json.loads(line), sides)
            "".join(texts or ()).encode()  # half of a surrogate pair is no text
        except ValueError:
            texts = None
        if not texts:
            raise UserError(
                "Expected a JSON object with text at the keys "
                f"{' and '.join(sides.columns or _HEADERS[0])} on line {number} of {path}. "
                f"Received: {line[:_SHOWN]}. For other keys, set --columns, or --source_language "
                "and --target_language. For a JSON array: jq -c '.[]' FILE > NEW"
            )
        yield texts


def _texts_of(entry: Any, sides: Sides) -> list[str] | None:
    """Returns the source and the target of an object; None where it has not both."""
    inner = entry.get("translation") if isinstance(entry, dict) else None
    for names in sides.names():
        for place in (entry, inner if names == sides.languages else None):
            texts: list[Any] = [place.get(n) for n in names] if isinstance(place, dict) else []
            if texts and all(isinstance(text, str) for text in texts):
                return texts
    return None


def _tmx_pairs(path: str, sides: Sides) -> Iterator[Sequence[str]]:
    """Yields of each <tu> of a TMX file the segments of two languages.

    A code such as "en" also stands for "en-GB". Units without one of the sides are skipped, and
    counted.
    """
    if sides.languages is None:
        raise UserError(
            f"Expected --source_language and --target_language for {path}. Received: none."
        )
    count, skipped, codes = 0, 0, Counter[str]()
    with raw.opened(path) as stream:
        for count, unit in enumerate(_units(stream, path), start=1):
            segments = [
                (variant.get(_LANGUAGE) or variant.get("lang") or "", "".join(_segment_text(part)))
                for variant in unit
                for part in variant
                if _tag(variant) == "tuv" and _tag(part) == "seg"
            ]
            codes.update(code for code, _ in segments)
            texts = [
                _segment(segments, code, f"<tu> {count} of {path}") for code in sides.languages
            ]
            if all(map(str.strip, texts)):
                yield texts
            else:
                skipped += 1
    seen = f"languages in the file: {', '.join(code for code, _ in codes.most_common(8)) or 'none'}"
    if skipped == count:
        raise UserError(
            f"Expected <tu> elements with text on both sides in {path}. Received: none in "
            f"{skipped} elements; {seen}. Check the file, --source_language and --target_language."
        )
    if skipped:
        progress.on_stderr(f"{path}: skipped {skipped:,} <tu> elements that lack a side; {seen}.")


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
            f"Expected XML in UTF-8, without entity declarations, in {name}. Received: {error!r}. "
            "Fix the file, or get it again."
        ) from error


def _segment_text(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if _tag(child) not in _MARKUP:
            yield from _segment_text(child)
        elif child.get("type") in _BREAKS:
            yield "\n"  # where words do not grow together
        yield child.tail or ""


def _segment(segments: list[tuple[str, str]], language: str, unit: str) -> str:
    """Returns the text of a language, "" where there is none."""
    wanted = _code(language)
    near = [each for each in segments if _code(each[0]) == wanted]
    near = near or [each for each in segments if _code(each[0]).startswith(f"{wanted}-")]
    if len({code for code, _ in near}) > 1:
        raise UserError(
            f"Expected one segment of language {language} in {unit}. Received: "
            f"{', '.join(code for code, _ in near)}. Choose one of them by --source_language or "
            "--target_language."
        )
    return near[0][1] if near else ""


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _code(language: str) -> str:
    return language.casefold().replace("_", "-")


# What reads which; .gz may stand behind all of them.
READERS: dict[str, Reader] = {
    **dict.fromkeys((".tsv", ".tab"), _tsv_pairs),
    ".csv": _csv_pairs,
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json_pairs),
    ".tmx": _tmx_pairs,
}
