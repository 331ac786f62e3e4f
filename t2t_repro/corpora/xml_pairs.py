"""Translation memories (TMX) and localisation files (XLIFF 1.2 and 2), unit by unit.

The parser tells the line of each unit, holds one of them, and refuses entities that a file
declares, as bombs do.
"""

import html
import os
import xml.sax
from collections.abc import Iterator
from xml.sax.handler import ContentHandler, feature_external_ges

import defusedxml
from defusedxml import expatreader

from t2t_repro import progress
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.errors import UserError
from t2t_repro.text import raw

_BLOCK = 1 << 16
_MARKUP = {
    "bpt",
    "ept",
    "it",
    "ph",
    "ut",
    "x",
    "bx",
    "ex",
    "sc",
    "ec",
    "cp",
}  # of a format, no text
_BREAKS = {"lb", "pb", "cb", "xlf:lb"}  # of lines, pages and columns: kinds of markup
_UNTRANSLATED = {"new", "needs-translation", "initial"}


def tmx(path: str | os.PathLike, languages: tuple[str, str] | None) -> Iterator[Pair]:
    """Yields the pairs of a TMX file: of each <tu> the segments of two languages.

    A code such as "en" also stands for "en-GB". Units that lack a side are left out, and counted.

    Raises:
        UserError: on broken XML, entities, no languages, or none of these, by line.
    """
    return _pairs(path, _Tmx(path, languages), "<tu>")


def xliff(path: str | os.PathLike, languages: tuple[str, str] | None) -> Iterator[Pair]:
    """Yields the pairs of an XLIFF file: <source> and <target> of its units.

    Units without a translation are left out, and counted.

    Raises:
        UserError: on broken XML, entities, or languages other than those given, by line.
    """
    return _pairs(path, _Xliff(path, languages), "<trans-unit> or <segment>")


def _pairs(path: str | os.PathLike, units: "_Units", unit: str) -> Iterator[Pair]:
    name, count = os.fspath(path), 0
    with raw.opened(path) as stream:
        for found in _parsed(stream, units, name):
            count += len(found)
            yield from found
    if not count:
        received = f"{units.skipped} without a pair" if units.skipped else "none"
        raise UserError(
            f"Expected {unit} with text on both sides in {name}. Received: {received}"
            f"{units.seen()}. Check the file, --source_language and --target_language."
        )
    if units.skipped:
        progress.on_stderr(
            f"{name}: left out {units.skipped:,} units without text on both sides{units.seen()}."
        )


def _parsed(stream, units: "_Units", name: str) -> Iterator[list[Pair]]:
    # A document type elsewhere, as that of TMX, may be named; it is not read.
    parser = expatreader.create_parser(forbid_external=False)
    parser.setFeature(feature_external_ges, False)
    parser.setContentHandler(units)
    units.setDocumentLocator(parser)
    try:
        while block := stream.read(_BLOCK):
            parser.feed(block)
            yield units.taken()
        parser.close()
    except xml.sax.SAXParseException as error:
        raise UserError(
            f"Expected XML in {name}. Received: {error.getMessage()} at line "
            f"{error.getLineNumber()}, column {(error.getColumnNumber() or 0) + 1}. Mend it, or "
            "get it again."
        ) from error
    except defusedxml.DefusedXmlException as error:
        raise UserError(
            f"Expected XML without entities of its own in {name}. Received: "
            f"{type(error).__name__} at line {parser.getLineNumber()}. Leave the declaration out "
            "if you trust the file."
        ) from error
    except UserError:
        raise
    except (LookupError, ValueError) as error:  # an encoding that is declared and not known
        raise UserError(
            f"Expected XML in {name}. Received: {error}. Convert it to UTF-8, and say so in its "
            "first line."
        ) from error
    yield units.taken()


class _Units(ContentHandler):
    """Collects the pairs of units as the parser meets them."""

    def __init__(self, path: str | os.PathLike, languages: tuple[str, str] | None):
        super().__init__()
        self.skipped = 0
        self._path = path
        self._languages = languages
        self._found: list[Pair] = []
        self._text: list[str] | None = None
        self._markup = 0
        self._apart = False  # whether what follows is another word than what was before

    def taken(self) -> list[Pair]:
        """Returns the pairs since it was last asked."""
        found, self._found = self._found, []
        return found

    def seen(self) -> str:
        """Returns what the file has instead, for a message."""
        return ""

    def characters(self, content: str) -> None:
        if self._text is None or self._markup:
            return
        if self._apart and self._text:
            around = self._text[-1][-1:] + content[:1]
            self._text += [] if any(map(str.isspace, around)) else [" "]
        self._apart = False
        self._text.append(content)

    def skippedEntity(self, name: str) -> None:  # of a document type that is not read
        self.characters(html.unescape(f"&{name};"))

    def _begin_markup(self, attrs) -> None:
        """Leaves out what follows; where it breaks the line, words do not grow together."""
        self._apart |= not _BREAKS.isdisjoint(map(attrs.get, ("ctype", "type", "subType")))
        self._markup += 1

    @property
    def _line(self) -> int:
        return self._locator.getLineNumber()  # type: ignore[attr-defined]

    def _taken_text(self) -> str:
        text, self._text, self._apart = "".join(self._text or []), None, False
        return raw.one_line(text, self._path, self._line)

    def _add(self, source: str, target: str) -> None:
        if source and target:
            self._found.append((source, target))
        else:
            self.skipped += 1


class _Tmx(_Units):
    def __init__(self, path: str | os.PathLike, languages: tuple[str, str] | None):
        super().__init__(path, languages)
        self._segments: list[tuple[str, str]] = []
        self._language = ""
        self._codes: dict[str, int] = {}

    def seen(self) -> str:
        codes = sorted(self._codes, key=lambda code: -self._codes[code])
        return f"; its languages are {', '.join(codes[:8])}" if codes else ""

    def startElement(self, name: str, attrs) -> None:
        if name == "tu":
            self._segments = []
        elif name == "tuv":
            self._language = attrs.get("xml:lang") or attrs.get("lang") or ""
            if not self._language:
                raise UserError(
                    f"Expected xml:lang in the <tuv> at line {self._line} of "
                    f"{os.fspath(self._path)}. Received: none. Add it."
                )
            self._codes[self._language] = self._codes.get(self._language, 0) + 1
        elif name == "seg":
            self._text = []
        elif name in _MARKUP:
            self._begin_markup(attrs)

    def endElement(self, name: str) -> None:
        if name == "seg":
            self._segments.append((self._language, self._taken_text()))
        elif name == "tu":
            self._add(*self._sides())
        elif name in _MARKUP:
            self._markup -= 1

    def _sides(self) -> tuple[str, str]:
        if self._languages is None:
            raise UserError(
                "Expected --source_language and --target_language, of those in "
                f"{os.fspath(self._path)}: {', '.join(self._codes)}. Received: none."
            )
        source, target = map(self._segment, self._languages)
        return source, target

    def _segment(self, language: str) -> str:
        wanted = _code(language)
        exact = [(code, text) for code, text in self._segments if _code(code) == wanted]
        near = exact or [
            (code, text) for code, text in self._segments if _code(code).startswith(f"{wanted}-")
        ]
        if len({code for code, _ in near}) > 1:
            raise UserError(
                f"Expected one segment of {language} in the <tu> that ends at line {self._line} "
                f"of {os.fspath(self._path)}. Received: {', '.join(code for code, _ in near)}. "
                "Name one of them by --source_language or --target_language."
            )
        return near[0][1] if near else ""


class _Xliff(_Units):
    def __init__(self, path: str | os.PathLike, languages: tuple[str, str] | None):
        super().__init__(path, languages)
        self._open: list[str] = []
        self._sides: dict[str, str] = {}
        self._untranslated = False

    def startElement(self, name: str, attrs) -> None:
        name = name.rpartition(":")[2]
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if name in ("xliff", "file"):
            self._check_languages(attrs)
        elif name in ("trans-unit", "segment"):
            self._sides = {}
            self._untranslated = attrs.get("state") in _UNTRANSLATED
        elif name in ("source", "target") and parent in ("trans-unit", "segment"):
            self._text = []
            self._untranslated |= attrs.get("state") in _UNTRANSLATED
        elif name == "mrk":
            self._apart |= attrs.get("mtype") == "seg"
        elif name in _MARKUP:
            self._begin_markup(attrs)

    def endElement(self, name: str) -> None:
        name = self._open.pop()
        parent = self._open[-1] if self._open else ""
        if name in ("source", "target") and parent in ("trans-unit", "segment"):
            self._sides[name] = self._taken_text()
        elif name in ("trans-unit", "segment"):
            target = "" if self._untranslated else self._sides.get("target", "")
            self._add(self._sides.get("source", ""), target)
        elif name in _MARKUP:
            self._markup -= 1

    def _check_languages(self, attrs) -> None:
        if self._languages is None:
            return
        for side, short, wanted in zip(
            ("source-language", "target-language"), ("srcLang", "trgLang"), self._languages,
            strict=True,
        ):  # fmt: skip
            code = attrs.get(side) or attrs.get(short)
            if code and not f"{_code(code)}-".startswith(f"{_code(wanted)}-"):
                raise UserError(
                    f"Expected {side} to be {wanted} at line {self._line} of "
                    f"{os.fspath(self._path)}. Received: {code}. Leave out --source_language and "
                    "--target_language, or exchange them if the file has the sides so."
                )


def _code(language: str) -> str:
    return language.casefold().replace("_", "-")
