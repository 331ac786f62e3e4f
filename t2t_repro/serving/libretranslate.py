"""LibreTranslate's protocol, which many programs speak: https://docs.libretranslate.com."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from t2t_repro.corpora.checks.languages import load_identifier
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.schemas import Detect, Libre, Limits, bad, checked, split_texts
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


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request to translate."""

    served: ServedModel
    texts: list[Text]
    n_best: int
    is_list: bool
    confidence: float | None  # in percent, that this is the source; None: it was named

    @classmethod
    def of(cls, values: dict[str, Any], models: Sequence[ServedModel], limits: Limits) -> "Asked":
        """Returns the request of these values; what they have besides is of no consequence here.

        Raises:
            HTTPException: with 400 if they are not right, 413 if there are too many sentences.
        """
        body: Libre = checked(Libre, values)
        q, found = body.q, None
        if body.source == "auto":
            found = dict(identify("\n".join([q] if isinstance(q, str) else q), _codes(models)))
        served = _between(body.source, body.target, models, found)
        n_best = min(1 + body.alternatives, served.model.beam_size)
        confidence = None if found is None else _percent(found.get(served.source, 0))
        texts = split_texts(q, served.source, limits, split=True)
        return cls(served, texts, n_best, isinstance(q, list), confidence)

    def answer(self, translated: Sequence[Translation]) -> dict[str, Any]:
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
        HTTPException: with 400 if "q" is not a text.
    """
    found = identify(checked(Detect, values).q, _codes(models))
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
    source: str, target: str, models: Sequence[ServedModel], shares: dict[str, float] | None
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
        raise bad("t2t-server to be started with --model=SOURCE-TARGET=DIR")
    found = [
        served for served in known if served.target == target and source in (served.source, "auto")
    ]
    found.sort(key=lambda served: (shares or {}).get(served.source, 0), reverse=True)
    if not found:
        pairs = " or ".join(f"{served.source} and {served.target}" for served in known)
        raise bad(f'"source" and "target" of {pairs}')
    return found[0]


def identify(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """Returns (language, probability), the likeliest first; [] of a text without letters.

    Args:
        text: the text.
        languages: codes such as "en" or "en_GB"; those that py3langid does not know are left out,
            and of several with one beginning all but the first.
    """
    if not any(map(str.isalpha, text)):
        return []
    identifier, codes = _identifier(tuple(languages))
    ranked = identifier.rank(text) if codes else []
    return [(codes[name], float(probability)) for name, probability in ranked]


@functools.lru_cache(maxsize=4)
def _identifier(languages: tuple[str, ...]):
    """Returns py3langid's identifier of these languages, and the code for each of its own."""
    identifier = load_identifier()
    known = set(identifier.nb_classes)
    codes: dict[str, str] = {}
    for code in languages:
        name = code.partition("_")[0].lower()
        if name in known:
            codes.setdefault(name, code)
    identifier.set_languages(list(codes))
    return identifier, codes
