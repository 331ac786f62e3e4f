"""The schemas of requests, checked and split into sentences, and of answers."""

import codecs
import contextlib
import dataclasses
import email
import itertools
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, cast

import sentencex
from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, TypeAdapter
from starlette.requests import Request

from t2t_repro.serving.models import Hypothesis

# Characters that are split at once: where quotation marks are not closed, sentencex takes a time
# with the square of what it gets, and everyone else waits.
PIECE = 4000
_OBJECT = TypeAdapter(dict[str, Any])


class Translate(BaseModel):
    """The body of /translate."""

    model_config = ConfigDict(extra="forbid")
    inputs: str | list[str]
    n_best: Annotated[StrictInt, Field(ge=1)] = 1
    split: StrictBool = True
    model: str | None = None


class Libre(BaseModel):
    """The body of /translate as LibreTranslate documents it, in JSON or as a form."""

    q: str | list[str]
    source: str
    target: str
    format: Literal["text", "", None] = "text"
    alternatives: Annotated[int, Field(ge=0, le=99)] = 0


class Detect(BaseModel):
    """The body of /detect."""

    q: str


class Attend(BaseModel):
    """The body of /attention."""

    model_config = ConfigDict(extra="forbid")
    inputs: str
    targets: str
    model: str | None = None


@dataclasses.dataclass(frozen=True)
class Translation:
    """The answer for a sentence: its hypotheses, best first, and the best of them."""

    input: str
    translation: str
    score: float | None
    n_best: list[Hypothesis]


@dataclasses.dataclass(frozen=True)
class TextTranslation(Translation):
    """The answer for a text; one of several sentences has no score and only the best."""

    sentences: list[Translation]


@dataclasses.dataclass(frozen=True)
class Text:
    """A text and its sentences, line by line; a blank line has none."""

    text: str
    lines: list[list[str]]

    @property
    def sentences(self) -> list[str]:
        return [sentence for line in self.lines for sentence in line]

    def joined(self, translations: Iterable[str]) -> str:
        """Returns the translations of the sentences, each in its sentence's line."""
        rest = iter(translations)
        return "\n".join(" ".join(next(rest) for _ in line) for line in self.lines)

    def translated(self, rest: Iterator[Translation]) -> TextTranslation:
        """Returns the answer from the next translations, one for each sentence."""
        sentences = list(itertools.islice(rest, len(self.sentences)))
        best = self.joined(each.translation for each in sentences)
        if len(sentences) != 1:
            return TextTranslation(self.text, best, None, [Hypothesis(best, None)], sentences)
        (one,) = sentences
        n_best = [Hypothesis(self.joined([h.translation]), h.score) for h in one.n_best]
        return TextTranslation(self.text, best, one.score, n_best, sentences)


def values_of(request: Request, body: bytes) -> dict[str, Any]:
    """Returns the values of a request: a JSON object, or a form or query string with a field "q".

    Raises:
        ValidationError: if it is neither.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body.lstrip().startswith(b"{"):
        with contextlib.suppress(ValueError):  # not UTF-8, or too many
            fields = _fields(request, body)
            if texts := [value for name, value in fields if name == "q"]:
                return {**dict(fields), "q": texts[0] if len(texts) == 1 else texts}
    return _OBJECT.validate_json(body)


def _fields(request: Request, body: bytes) -> list[tuple[str, str]]:
    """Returns name and value of each field of the query and of a form, of a browser's too."""
    kind = request.headers.get("content-type", "")
    options: Any = {"keep_blank_values": True, "errors": "strict", "max_num_fields": 100}
    fields = urllib.parse.parse_qsl(request.url.query, **options)
    if not kind.startswith("multipart/form-data"):
        return fields + urllib.parse.parse_qsl(body.decode(), **options)
    parts = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body).walk()
    named = ((p.get_param("name", header="content-disposition"), p) for p in parts)
    decoded = ((n, cast(bytes, p.get_payload(decode=True)).decode()) for n, p in named if n)
    return fields + [(str(name), value) for name, value in decoded]


def bad(what: str) -> HTTPException:
    """Returns an answer of 400; `what` was expected."""
    return HTTPException(400, f"Expected {what}.")


def split_texts(given: str | list[str], language: str, most: int, split: bool = True) -> list[Text]:
    """Returns texts in sentences.

    Args:
        given: a text, with any number of lines, or several.
        language: its code in ISO 639, whose abbreviations end no sentence.
        most: texts, and sentences of all of them.
        split: whether to split them; else each is one sentence.

    Raises:
        HTTPException: with 413 if there are too many.
    """
    texts, found, left = [given] if isinstance(given, str) else given, [], most
    too_many = HTTPException(413, f"Expected at most {most} sentences in a request.")
    if len(texts) > most:
        raise too_many
    for text in texts:
        lines = []
        for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if split else [text]:
            sentences = _sentences(line.strip(), language) if split else filter(str.strip, [line])
            lines.append(list(itertools.islice(sentences, left + 1)))  # the rest is not split
            left -= len(lines[-1])
            if left < 0:
                raise too_many
        found.append(Text(text, lines))
    return found


def _sentences(line: str, language: str) -> Iterator[str]:
    """Yields the sentences of a line.

    It is split in pieces, whose last sentence may continue in the next. A piece without an end of a
    sentence begins one that is too long for any model: the line then stays whole.
    """
    while len(line) > PIECE:
        *ended, last = sentencex.segment(language, line[:PIECE])
        if not ended:
            yield line
            return
        yield from map(str.strip, ended)
        line = (last + line[PIECE:]).lstrip()
    if line:
        yield from map(str.strip, sentencex.segment(language, line))


def check_lengths(tokens: list[int], most: int) -> None:
    """Refuses a sentence of too many tokens, with 413."""
    for i, n in enumerate(tokens, 1):
        if n > most:
            raise HTTPException(413, f"Expected at most {most} tokens in sentence {i}, not {n}.")
