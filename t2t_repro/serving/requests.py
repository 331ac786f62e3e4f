"""What clients send, checked: bytes in, a request or a `Refused` out."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from t2t_repro.decoding.settings import LARGEST_ALPHA
from t2t_repro.errors import UserError, suggest
from t2t_repro.serving.models import Model, ServedModel
from t2t_repro.serving.sentences import Text, lines_of


class Refused(Exception):
    """An answer that is an error.

    Args:
        status: HTTP's.
        message: what was expected, received and what to do.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the server refuses.

    max_body_bytes: of a request.
    max_head_bytes: of a request's path and headers.
    max_sentences: of a request, and so many texts.
    max_sentence_tokens: of a sentence, its end included.
    timeout_s: seconds for a request's body to arrive, and again for its answer.
    """

    max_body_bytes: int = 1_000_000
    max_head_bytes: int = 16_384
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


@dataclasses.dataclass(frozen=True)
class TranslateRequest:
    """The body of /translate."""

    served: ServedModel
    inputs: list[Text]
    n_best: int
    alpha: float | None

    @classmethod
    def of(
        cls, values: dict[str, Any], models: Sequence[ServedModel], limits: Limits
    ) -> "TranslateRequest":
        """Returns the request of these values.

        Raises:
            Refused: with 400 if they are not right, 413 if there are too many sentences.
        """
        _check_names(values, ("inputs", "n_best", "alpha", "split", "model"))
        served = _named(values, models)
        model = served.model
        inputs, n_best = values.get("inputs"), values.get("n_best", 1)
        split = values.get("split", True)
        texts = texts_of("inputs", inputs)
        if type(n_best) is not int or not 1 <= n_best <= model.beam_size:
            beams = f"from 1 to {model.beam_size}, the beams of this model"
            raise expected(f'"n_best", a number {beams}', n_best)
        if type(split) is not bool:
            raise expected('"split", true or false', split)
        alpha = _alpha(values["alpha"], model) if "alpha" in values else None
        return cls(served, split_texts(texts, served.source, limits, split), n_best, alpha)


@dataclasses.dataclass(frozen=True)
class AttentionRequest:
    """The body of /attention."""

    served: ServedModel
    inputs: str
    targets: str

    @classmethod
    def of(cls, values: dict[str, Any], models: Sequence[ServedModel]) -> "AttentionRequest":
        """Returns the request of these values.

        Raises:
            Refused: with 400 if they are not right.
        """
        _check_names(values, ("inputs", "targets", "model"))
        for name in ("inputs", "targets"):
            if not isinstance(values.get(name), str):
                raise expected(f'"{name}", a string', values.get(name))
            _check_unicode(values[name])
        return cls(_named(values, models), values["inputs"], values["targets"])


def texts_of(name: str, value: Any) -> list[str]:
    """Returns a value as texts.

    Raises:
        Refused: with 400 if it is neither a string nor a list of strings, or no Unicode.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise expected(f'"{name}", a string or a list of strings', value)
    for text in texts:
        _check_unicode(text)
    return texts


def split_texts(texts: list[str], language: str, limits: Limits, split: bool = True) -> list[Text]:
    """Returns texts in sentences.

    Raises:
        Refused: with 413 if there are too many sentences.
    """
    most = limits.max_sentences
    found: list[Text] = []
    count = len(texts)
    if split:  # lines are counted first: to split a million takes seconds
        count = max(count, sum(bool(line.strip()) for text in texts for line in lines_of(text)))
    received = str(count)
    if count <= most:
        count = 0
        for text in texts:
            found.append(Text.of(text, language, split, most - count))
            count += len(found[-1].sentences)
            if count > most:  # the rest is not split
                received = "more"
                break
    if count > most:
        raise Refused(
            413,
            f"Expected at most {most} sentences in a request. Received: {received}. Send them in "
            "several.",
        )
    return found


def check_lengths(tokens: list[int], most: int) -> None:
    """Refuses a sentence of too many tokens, with 413."""
    for i, count in enumerate(tokens):
        if count > most:
            raise Refused(
                413,
                f"Expected sentences of at most {most} tokens. Received: {count} tokens in "
                f"sentence {i + 1}. Split it.",
            )


def _alpha(alpha: Any, model: Model) -> float:
    if not model.any_alpha:
        raise expected(
            f'no "alpha": {model.alpha} is fixed in this export',
            alpha,
            " Leave it out, or export the run again.",
        )
    if type(alpha) not in (int, float) or not 0 <= alpha <= LARGEST_ALPHA:
        raise expected(f'"alpha", a number from 0 to {LARGEST_ALPHA:g}', alpha)
    return float(alpha)


def expected(what: str, received: Any, mend: str = "") -> Refused:
    """Returns a refusal with 400."""
    return Refused(400, f"Expected {what}. Received: {_short(received)}.{mend}")


def json_object(body: bytes) -> dict[str, Any]:
    """Returns the values of a body.

    Raises:
        Refused: with 400 if it is no JSON object.
    """
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise Refused(
            400, f"Expected a JSON object in UTF-8. Received: {str(error)[:200]}."
        ) from error
    if not isinstance(values, dict):
        raise expected("a JSON object", values)
    return values


def _check_names(values: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in values:
        if name not in names:
            known = ", ".join(f'"{n}"' for n in names)
            raise expected(f"{known} only", name, suggest(name, names))


def _named(values: dict[str, Any], models: Sequence[ServedModel]) -> ServedModel:
    """The model that is asked for; the first where none is."""
    name = values.get("model", models[0].name)
    for served in models:
        if served.name == name:
            return served
    raise expected(f'"model", one of {", ".join(served.name for served in models)}', name)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            400, "Expected text in Unicode. Received: half of a surrogate pair."
        ) from error


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
