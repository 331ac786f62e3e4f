"""Pairs of sentences in whatever form people have them: two files, or one that holds both sides.

Every reader holds a line or an element in memory, never a file, and names file and line of what it
cannot read. A line break within a sentence becomes a space.
"""

import csv
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.errors import UserError, suggest
from t2t_repro.text import raw

# What is read as what; .gz may stand behind all of them.
KINDS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".tmx": "tmx",
}
_HEADERS = (("source", "target"), ("src", "tgt"), ("src", "trg"))
_SHOWN = 60  # characters of what was received
_QUOTED = re.compile(r'"[^"]*(?:"|$)')  # a field of CSV, or what of it is on its first line


class Sides(NamedTuple):
    """How a file that holds both sides tells them apart: codes of languages, names of columns."""

    languages: tuple[str, str] | None = None
    columns: tuple[str, str] | None = None


def kind_of(source: str | os.PathLike, target: str | os.PathLike | None) -> str:
    """Returns the format of a file, or of two side by side, which is "lines".

    Raises:
        UserError: on a file that needs another, or has one that it does not need.
    """
    kind, other = (
        KINDS.get(pathlib.Path(os.fspath(path or "").removesuffix(".gz")).suffix.lower())
        for path in (source, target)
    )
    if target is not None:
        if kind or other:
            raise UserError(
                "Expected one file for both sides, or two of one sentence a line. Received: "
                f"{os.fspath(source)} and {os.fspath(target)}. Leave out the one that does not "
                "hold both, or rename the other to .txt."
            )
        return "lines"
    if kind is None and b"\t" in next(iter(raw.raw_lines(source)), b""):
        return "tsv"
    if kind is None:
        raise UserError(
            f"Expected the other side of {os.fspath(source)}, or a file that holds both sides: "
            f"{', '.join(KINDS)}. Received: neither. Name its targets too."
        )
    return kind


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
    kind = kind_of(source, target)
    if kind == "lines":
        assert target is not None
        return _lines(source, target)
    return _READERS[kind](source, sides)


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
                f"its first line has. Received: {len(row)}: {_shown(row)}. Mend that line."
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
        if not (0 <= min(source, target) and max(source, target) < len(first)):
            raise UserError(
                f"Expected columns {wanted[0]} and {wanted[1]} in {os.fspath(path)}. Received: "
                f"{len(first)} columns, counted from 1: {_shown(first)}. Correct --columns."
            )
        return (source, target), (names[source], names[target]) in known
    for pair in [(wanted[0].casefold(), wanted[1].casefold())] if wanted else known:
        if pair[0] in names and pair[1] in names:
            return (names.index(pair[0]), names.index(pair[1])), True
    if wanted:
        missing = next(name for name in wanted if name.casefold() not in names)
        raise UserError(
            f"Expected the column {missing!r} in the first line of {os.fspath(path)}. Received: "
            f"{_shown(first)}.{suggest(missing, first)} Correct --columns."
        )
    if headless and len(first) == 2:
        return (0, 1), False
    expected = "two columns, or " if headless else ""
    raise UserError(
        f"Expected {expected}a first line with source and target in {os.fspath(path)}. Received: "
        f"{len(first)} columns: {_shown(first)}. Name them by --columns: by their names, or, where "
        "this line is a pair itself, by their numbers, such as 1,2."
    )


def _json_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    for number, line in enumerate(raw.lines(path), start=1):
        if not line.strip():
            continue
        reason = ""
        try:
            entry = json.loads(line)
        except ValueError as error:
            entry, reason = None, f" ({error})"
        if not isinstance(entry, dict):
            raise UserError(
                f"Expected a JSON object on line {number} of {os.fspath(path)}. Received: "
                f"{line[:_SHOWN]!r}{reason}. Write one a line: jq -c '.[]' FILE > NEW.jsonl makes "
                "them of an array."
            )
        yield _of_object(entry, path, number, sides)


def _of_object(entry: dict, path: str | os.PathLike, number: int, sides: Sides) -> Pair:
    texts = []
    translation = entry.get("translation")
    places = [(sides.columns, entry)] if sides.columns else [(names, entry) for names in _HEADERS]
    if sides.languages and not sides.columns:  # asked for, so that they go before what is usual
        inner = [(sides.languages, translation)] if isinstance(translation, dict) else []
        places = [(sides.languages, entry), *inner, *places]
    for names, place in places:
        if names[0] in place and names[1] in place:
            texts = [place[name] for name in names]
            break
    else:
        within = f", with {', '.join(translation)}" if isinstance(translation, dict) else ""
        wanted = sides.columns or ("source", "target")
        raise UserError(
            f"Expected {wanted[0]} and {wanted[1]} on line {number} of {os.fspath(path)}. "
            f"Received: {', '.join(entry) or 'nothing'}{within}. Name them by --columns, or by "
            "--source_language and --target_language."
        )
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise UserError(
                f"Expected {name} on line {number} of {os.fspath(path)} to be text. Received: "
                f"{ascii(text)[:_SHOWN]}."
            )
    source, target = (raw.one_line(text, path, number) for text in texts)
    return source, target


def _tmx_pairs(path: str | os.PathLike, sides: Sides) -> Iterator[Pair]:
    from t2t_repro.corpora import xml_pairs

    return xml_pairs.tmx(path, sides.languages)


def _shown(row: Sequence[str]) -> str:
    text = " | ".join(row)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


_READERS: dict[str, Callable[[str | os.PathLike, Sides], Iterator[Pair]]] = {
    "tsv": _tsv_pairs,
    "csv": _csv_pairs,
    "json": _json_pairs,
    "tmx": _tmx_pairs,
}
