"""LibreTranslate's protocol, which many programs speak: https://docs.libretranslate.com."""

import dataclasses
import urllib.parse
from collections.abc import Sequence
from typing import Any

from t2t_repro.serving.identifier import identify
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.requests import Limits, Refused, expected, split_texts, texts_of
from t2t_repro.serving.sentences import Text, Translation

_NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
_FIELDS = 100  # of a form


def form(body: bytes) -> dict[str, Any] | None:
    """Returns the values of a body that is a form with a field "q"; None: it is none."""
    if not body.lstrip().startswith(b"{"):
        try:
            fields = urllib.parse.parse_qsl(
                body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
            )
        except ValueError:  # not UTF-8, or too many
            return None
        texts = [value for name, value in fields if name == "q"]
        if texts:
            return {**dict(fields), "q": texts[0] if len(texts) == 1 else texts}
    return None


@dataclasses.dataclass(frozen=True)
class Asked:
    """The body of /translate, as LibreTranslate documents it."""

    served: ServedModel
    texts: list[Text]
    n_best: int
    is_list: bool
    confidence: float | None  # in percent, that this is the source; None: it was named

    @classmethod
    def of(cls, values: dict[str, Any], models: Sequence[ServedModel], limits: Limits) -> "Asked":
        """Returns the request of these values; what they have besides is of no consequence here.

        Raises:
            Refused: with 400 if they are not right, 413 if there are too many sentences.
        """
        texts, found = texts_of("q", values["q"]), None
        if values.get("source") == "auto":
            found = dict(identify("\n".join(texts), _codes(models)))
        served = _between(values.get("source"), values.get("target"), models, found)
        if values.get("format", "text") != "text":
            raise expected('"format", which can only be text', values["format"])
        alternatives = values.get("alternatives", 0)
        if str(alternatives) not in map(str, range(100)):
            raise expected('"alternatives", a number from 0 to 99', alternatives)
        n_best = min(1 + int(alternatives), served.model.beam_size)
        confidence = None if found is None else _percent(found.get(served.source, 0))
        split, is_list = split_texts(texts, served.source, limits), isinstance(values["q"], list)
        return cls(served, split, n_best, is_list, confidence)

    def answer(self, translated: list[Translation]) -> dict[str, Any]:
        """Returns the answer: lists where a list was asked."""
        columns: dict[str, list] = {"translatedText": [each.translation for each in translated]}
        if self.n_best > 1:
            columns["alternatives"] = [
                [other.translation for other in each.n_best[1:]] for each in translated
            ]
        if self.confidence is not None:
            found = {"language": self.served.source, "confidence": self.confidence}
            columns["detectedLanguage"] = [found for _ in translated]
        return {name: of if self.is_list else of[0] for name, of in columns.items()}


def detect(values: dict[str, Any], models: Sequence[ServedModel]) -> list[dict[str, Any]]:
    """Returns the languages that are served by how likely a text is in each, the best first.

    Raises:
        Refused: with 400 if "q" is not a text.
    """
    if not isinstance(values.get("q"), str):
        raise expected('"q", a string', values.get("q"))
    (text,) = texts_of("q", values["q"])
    found = identify(text, _codes(models))
    return [{"language": code, "confidence": _percent(share)} for code, share in found]


def languages(models: Sequence[ServedModel]) -> list[dict[str, Any]]:
    """Returns the languages that are known, and into which each is translated."""
    return [
        {
            "code": code,
            "name": _NAMES.get(code, code),
            "targets": sorted(served.target for served in models if served.source == code),
        }
        for code in _codes(models)
    ]


def _codes(models: Sequence[ServedModel]) -> list[str]:
    """Returns the languages that are served."""
    return sorted({code for served in models for code in (served.source, served.target)} - {""})


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _between(
    source: Any, target: Any, models: Sequence[ServedModel], shares: dict[str, float] | None
) -> ServedModel:
    """Returns the model of two languages.

    Args:
        source, target: as they were asked for.
        models: those that there are.
        shares: how likely the text is in each language, where source is "auto": of the models for
            the target it is that of the likeliest source.
    """
    known = [served for served in models if served.source]
    if not known:
        raise Refused(
            400,
            "Expected a request without languages, as this model's are not known: see "
            'docs/server.md. Received: "q". Start t2t-server with --model=SOURCE-TARGET=DIR.',
        )
    found = [
        served for served in known if served.target == target and source in (served.source, "auto")
    ]
    found.sort(key=lambda served: (shares or {}).get(served.source, 0), reverse=True)
    if not found:
        pairs = " or ".join(f"{served.source} and {served.target}" for served in known)
        raise expected(f'"source" and "target" of {pairs}', f"{source} and {target}")
    return found[0]
