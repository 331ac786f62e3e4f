"""Translation memories (TMX), unit by unit; entities that a file declares are refused."""

import collections
import html.entities
import os
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import DefusedXMLParser, iterparse

from t2t_repro import progress
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.errors import UserError
from t2t_repro.text import raw

_MARKUP = {"bpt", "ept", "it", "ph", "ut"}  # of a format, no text
_BREAKS = {"lb", "pb", "cb"}  # of lines, pages and columns: kinds of markup
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def tmx(path: str | os.PathLike, languages: tuple[str, str] | None) -> Iterator[Pair]:
    """Yields the pairs of a TMX file: of each <tu> the segments of two languages.

    A code such as "en" also stands for "en-GB". Units that lack a side are left out, and counted.

    Raises:
        UserError: on broken XML, entities, no languages, or none of these.
    """
    name, skipped, found = os.fspath(path), 0, False
    codes: collections.Counter[str] = collections.Counter()
    with raw.opened(path) as stream:
        for number, unit in enumerate(_units(stream, name), start=1):
            segments = list(_segments(unit, path, number))
            codes.update(code for code, _ in segments)
            if languages is None:
                raise UserError(
                    f"Expected --source_language and --target_language, of those in {name}: "
                    f"{', '.join(codes)}. Received: none."
                )
            source, target = (_segment(segments, each, name, number) for each in languages)
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


def _units(stream, name: str) -> Iterator[Element]:
    """Yields every <tu>; holds one of them."""
    parser = DefusedXMLParser()
    parser.entity.update(html.entities.entitydefs)  # a document type elsewhere is not read
    parents: list[Element] = []
    events = iterparse(stream, ("start", "end"), parser)
    while True:
        try:
            event, element = next(events, (None, None))
        except (ParseError, ValueError, LookupError) as error:  # the last, of unknown encodings
            raise UserError(
                f"Expected XML in UTF-8, without entities of its own, in {name}. Received: "
                f"{error!r}. Fix it, or get it again."
            ) from error
        if element is None:
            return
        if event == "start":
            parents.append(element)
            continue
        parents.pop()
        if _tag(element) == "tu":
            yield element
            if parents:
                parents[-1].clear()


def _segments(unit: Element, path: str | os.PathLike, number: int) -> Iterator[tuple[str, str]]:
    """Yields the language and the text of each segment."""
    for variant in (each for each in unit if _tag(each) == "tuv"):
        language = variant.get(_LANGUAGE) or variant.get("lang")
        if not language:
            raise UserError(
                f"Expected xml:lang in every <tuv> of {os.fspath(path)}. Received: none in <tu> "
                f"{number}. Add it."
            )
        for segment in (each for each in variant if _tag(each) == "seg"):
            yield language, raw.one_line("".join(_texts(segment)), path, number)


def _texts(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if _tag(child) not in _MARKUP:
            yield from _texts(child)
        elif child.get("type") in _BREAKS:
            yield "\n"  # where words do not grow together
        yield child.tail or ""


def _segment(segments: list[tuple[str, str]], language: str, name: str, number: int) -> str:
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
