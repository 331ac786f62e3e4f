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
from typing import IO, NamedTuple
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
    reader, other = (
        READERS.get(pathlib.Path(os.fspath(path or "").removesuffix(".gz")).suffix.lower())
        for path in (source, target)
    )
    if target is not None:
        if reader or other:
            raise UserError(
                "Expected one file for both sides, or two of one sentence a line. Received: "
                f"{os.fspath(source)} and {os.fspath(target)}. Leave out the one that does not "
                "hold both, or rename the other to .txt."
            )
        return None
    if reader is None and b"\t" in next(iter(raw.raw_lines(source)), b""):
        return _tsv_pairs
    if reader is None:
        raise UserError(
            f"Expected the other side of {os.fspath(source)}, or a file that holds both sides: "
            f"{', '.join(READERS)}. Received: neither. Name its targets too."
        )
    return reader


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
    lines = (line + "\n" for line in raw.lines(path))
    table = csv.reader(lines, delimiter=delimiter, strict=True)
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
    first: list[str] = []
    picked = (0, 1)
    for number, row in rows:
        if not row or row == [""]:
            continue
        if not first:
            first = row
            picked, header = _columns(path, row, sides, headless)
            if header:
                continue
        if len(row) != len(first):
            raise UserError(
                f"Expected {len(first)} columns at line {number} of {os.fspath(path)}, as many as "
                f"its first line has. Received: {len(row)}: {_shown(row)}. Fix that line."
            )
        source, target = (raw.one_line(row[column], path, number) for column in picked)
        yield source, target


def _columns(
    path: str | os.PathLike, first: Sequence[str], sides: Sides, headless: bool
) -> tuple[tuple[int, int], bool]:
    """Returns which columns hold the sides, and whether the first row is a header."""
    names = [cell.strip().casefold() for cell in first]
    known = [*([sides.languages] if sides.languages else []), *_HEADERS]
    known = [(source.casefold(), target.casefold()) for source, target in known]
    wanted = sides.columns
    if wanted and wanted[0].isdecimal():
        source, target = int(wanted[0]) - 1, int(wanted[1]) - 1
        if 0 <= min(source, target) and max(source, target) < len(first):
            return (source, target), (names[source], names[target]) in known
    else:
        for pair in [(wanted[0].casefold(), wanted[1].casefold())] if wanted else known:
            if pair[0] in names and pair[1] in names:
                return (names.index(pair[0]), names.index(pair[1])), True
        if not wanted and headless and len(first) == 2:
            return (0, 1), False
    source_name, target_name = wanted or ("source", "target")
    raise UserError(
        f"Expected the columns {source_name} and {target_name} in the first line of "
        f"{os.fspath(path)}. Received: {len(first)} columns: {_shown(first)}. Name them by "
        "--columns: by their names, or, where this line is a pair itself, by their numbers, such "
        "as 1,2."
    )


def _json_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    for number, line in enumerate(raw.lines(path), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise UserError(
                f"Expected a JSON object on line {number} of {os.fspath(path)}. Received: "
                f"{line[:_SHOWN]!r}. Write one a line: jq -c '.[]' FILE > NEW.jsonl makes them of "
                "an array."
            )
        texts = _texts_of(entry, sides)
        if not texts:
            wanted = sides.columns or ("source", "target")
            raise UserError(
                f"Expected the texts {wanted[0]} and {wanted[1]} on line {number} of "
                f"{os.fspath(path)}. Received: {line[:_SHOWN]}. Name them by --columns, or by "
                "--source_language and --target_language."
            )
        source, target = (raw.one_line(text, path, number) for text in texts)
        yield source, target


def _texts_of(entry: dict, sides: Sides) -> list[str]:
    """Returns the source and the target of an object; none where it has not both."""
    translation = entry.get("translation")
    places = [(names, entry) for names in ([sides.columns] if sides.columns else _HEADERS)]
    if sides.languages and not sides.columns:  # asked for, so that they go before what is usual
        inner = [(sides.languages, translation)] if isinstance(translation, dict) else []
        places = [(sides.languages, entry), *inner, *places]
    for names, place in places:
        texts = [text for name in names if isinstance(text := place.get(name), str)]
        if len(texts) == len(names):
            return texts
    return []


def _tmx_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    """Yields of each <tu> of a TMX file the segments of two languages.

    A code such as "en" also stands for "en-GB". Units that lack a side are left out, and counted.
    """
    name, skipped, found = os.fspath(path), 0, False
    codes: Counter[str] = Counter()
    with raw.opened(path) as stream:
        for number, unit in enumerate(_units(stream, name), start=1):
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
                raw.one_line(_segment(segments, language, name, number), path, number)
                for language in sides.languages
            )
            if source and target:
                found = True
                yield source, target
            else:
                skipped += 1
    seen = f"its languages are {', '.join(code for code, _ in codes.most_common(8)) or 'none'}"
    if not found:
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
