"""LibreTranslate's protocol, which many programs speak: https://docs.libretranslate.com."""

import dataclasses
import urllib.parse
from collections.abc import Sequence
from typing import Any

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
    detect: bool

    @classmethod
    def of(cls, values: dict[str, Any], models: Sequence[ServedModel], limits: Limits) -> "Asked":
        """Returns the request of these values; what they have besides is of no consequence here.

        Raises:
            Refused: with 400 if they are not right, 413 if there are too many sentences.
        """
        served = _between(values.get("source"), values.get("target"), models)
        if values.get("format", "text") != "text":
            raise expected('"format", which can only be text', values["format"])
        alternatives = values.get("alternatives", 0)
        if str(alternatives) not in map(str, range(100)):
            raise expected('"alternatives", a number from 0 to 99', alternatives)
        n_best = min(1 + int(alternatives), served.model.beam_size)
        texts = split_texts(texts_of("q", values["q"]), served.source, limits)
        many, auto = isinstance(values["q"], list), values["source"] == "auto"
        return cls(served, texts, n_best, many, auto)

    def answer(self, translated: list[Translation]) -> dict[str, Any]:
        """Returns the answer: lists where a list was asked."""
        columns: dict[str, list] = {"translatedText": [each.translation for each in translated]}
        if self.n_best > 1:
            columns["alternatives"] = [
                [other.translation for other in each.n_best[1:]] for each in translated
            ]
        if self.detect:  # nothing is looked at: hence no confidence
            found = {"language": self.served.source, "confidence": 0.0}
            columns["detectedLanguage"] = [found for _ in translated]
        return {name: of if self.is_list else of[0] for name, of in columns.items()}


def languages(models: Sequence[ServedModel]) -> list[dict[str, Any]]:
    """Returns the languages that are known, and into which each is translated."""
    codes = sorted({code for served in models for code in (served.source, served.target)} - {""})
    return [
        {
            "code": code,
            "name": _NAMES.get(code, code),
            "targets": sorted(served.target for served in models if served.source == code),
        }
        for code in codes
    ]


def _between(source: Any, target: Any, models: Sequence[ServedModel]) -> ServedModel:
    """The model of two languages; of a source "auto" the only one for the target."""
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
    if len(found) != 1:
        pairs = " or ".join(f"{served.source} and {served.target}" for served in known)
        raise expected(f'"source" and "target" of {pairs}', [source, target])
    return found[0]
