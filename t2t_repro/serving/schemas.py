"""What clients send, checked, and what they are answered."""

import dataclasses
import urllib.parse
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError
from pydantic_core import from_json

from t2t_repro.errors import UserError
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.sentences import Text, Whole, lines_of

_FIELDS = 100  # of a form


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
    format: Literal["text"] = "text"
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


class Translations(BaseModel):
    translations: list[Whole]


class Looked(BaseModel):
    """What each token of a translation looks at: a weight for each source token."""

    input: str
    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the server refuses.

    max_body_bytes: of a request.
    max_sentences: of a request, and so many texts.
    max_sentence_tokens: of a sentence, its end included.
    timeout_s: seconds for a request's body to arrive, and again for its answer.
    """

    max_body_bytes: int = 1_000_000
    max_sentences: int = 64
    max_sentence_tokens: int = 256
    timeout_s: float = 30.0

    @classmethod
    def of(
        cls, models: Sequence[ServedModel], max_sentence_tokens: int | None, **others: Any
    ) -> "Limits":
        """Returns the limits, with sentences as long as all models read, but not longer.

        Raises:
            UserError: if longer ones are asked for.
        """
        longest = min(served.model.longest for served in models)
        if max_sentence_tokens is None:
            max_sentence_tokens = min(cls.max_sentence_tokens, longest)
        if max_sentence_tokens > longest:
            raise UserError(
                f"Expected --max_sentence_tokens of at most {longest}, which this model "
                f"reads. Received: {max_sentence_tokens}. Give less, or export it with another "
                "max_input_size in --decode_hparams."
            )
        return cls(max_sentence_tokens=max_sentence_tokens, **others)


def values_of(body: bytes) -> dict[str, Any]:
    """Returns the values of a body: a JSON object, or a form with a field "q".

    Raises:
        HTTPException: with 400 if it is neither.
    """
    if not body.lstrip().startswith(b"{"):
        try:
            fields = urllib.parse.parse_qsl(
                body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
            )
        except ValueError:  # not UTF-8, or too many
            fields = []
        texts = [value for name, value in fields if name == "q"]
        if texts:
            return {**dict(fields), "q": texts[0] if len(texts) == 1 else texts}
    try:
        values = from_json(body)
    except ValueError as error:  # not UTF-8, not JSON, half of a surrogate pair, nested without end
        raise bad(f"a JSON object in UTF-8. Received: {str(error)[:200]}") from error
    if not isinstance(values, dict):
        raise bad("a JSON object")
    return values


def checked(kind: type[BaseModel], values: dict[str, Any]) -> Any:
    """Returns a body of these values.

    Raises:
        HTTPException: with 400 if they are not right.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = first["loc"][0] if first["loc"] else "body"
        raise bad(f'another "{where}": {first["msg"]}') from None


def bad(what: str) -> HTTPException:
    """Returns an answer of 400; `what` was expected."""
    return HTTPException(400, f"Expected {what}.")


def split_texts(given: str | list[str], language: str, limits: Limits, split: bool) -> list[Text]:
    """Returns texts in sentences.

    Raises:
        HTTPException: with 413 if there are too many sentences.
    """
    texts, most = [given] if isinstance(given, str) else given, limits.max_sentences
    found: list[Text] = []
    count = len(texts)
    if split:  # lines are counted first: to split a million takes seconds
        count = max(count, sum(bool(line.strip()) for text in texts for line in lines_of(text)))
    if count <= most:
        count = 0
        for text in texts:
            found.append(Text.of(text, language, split, most - count))
            count += len(found[-1].sentences)
            if count > most:  # the rest is not split
                break
    if count > most:
        raise HTTPException(413, f"Expected at most {most} sentences in a request.")
    return found


def check_lengths(tokens: list[int], most: int) -> None:
    """Refuses a sentence of too many tokens, with 413."""
    for i, count in enumerate(tokens):
        if count > most:
            raise HTTPException(
                413,
                f"Expected sentences of at most {most} tokens. Received: {count} tokens in "
                f"sentence {i + 1}. Split it.",
            )
