"""LibreTranslate's protocol: https://docs.libretranslate.com."""

import functools
from collections.abc import Sequence
from typing import Any

from t2t_repro.corpora.checks.languages import load_identifier
from t2t_repro.serving.models import ServedModel
from t2t_repro.serving.schemas import Libre, Translation, bad

_NAMES = {
    **{"ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish"},
    **{"fr": "French", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch"},
    **{"pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "tr": "Turkish"},
    **{"uk": "Ukrainian", "zh": "Chinese"},
}


def choose(body: Libre, models: Sequence[ServedModel]) -> tuple[ServedModel, dict | None]:
    """Returns the model of two languages, and the detected source with its probability in percent.

    None: the source was named. Where it is "auto", of the models for the target it is that of the
    likeliest source.

    Raises:
        HTTPException: with 400 if there is none.
    """
    known = [served for served in models if served.source]
    found = [m for m in known if m.target == body.target and body.source in (m.source, "auto")]
    if not found:
        pairs = " or ".join(f"{served.source}-{served.target}" for served in known)
        raise bad(f'"source" and "target" of a served pair: {pairs or "no model names a pair"}')
    if body.source != "auto":
        return found[0], None
    text = body.q if isinstance(body.q, str) else "\n".join(body.q)
    shares = dict(_identify(text, models))
    likeliest = max(found, key=lambda served: shares.get(served.source, 0.0))
    confidence = round(shares.get(likeliest.source, 0.0), 1)
    return likeliest, {"language": likeliest.source, "confidence": confidence}


def answer(
    body: Libre, detected: dict | None, n_best: int, translated: Sequence[Translation]
) -> dict[str, Any]:
    """Returns the answer: lists for a list."""
    columns: dict[str, list] = {"translatedText": [each.translation for each in translated]}
    if n_best > 1:
        columns["alternatives"] = [[h.translation for h in t.n_best[1:]] for t in translated]
    if detected:
        columns["detectedLanguage"] = [detected for _ in translated]
    return {name: of if isinstance(body.q, list) else of[0] for name, of in columns.items()}


def languages(models: Sequence[ServedModel]) -> list[dict[str, Any]]:
    """Returns the served languages, and the targets of each."""
    targets = {code: [m.target for m in models if m.source == code] for code in _codes(models)}
    rows = ((code, _NAMES.get(code, code), sorted(into)) for code, into in targets.items())
    return [dict(zip(("code", "name", "targets"), row, strict=True)) for row in rows]


def detect(text: str, models: Sequence[ServedModel]) -> list[dict[str, Any]]:
    """Returns the served languages with the probability of each for a text, the best first."""
    found = _identify(text, models)
    return [{"language": code, "confidence": round(share, 1)} for code, share in found]


def _identify(text: str, models: Sequence[ServedModel]) -> list[tuple[str, float]]:
    """Returns (language, percent), the likeliest first; [] of a text without letters.

    Languages that py3langid does not know are left out, and of several with one beginning, such as
    "en" and "en_GB", all but the first.
    """
    identifier, codes = _identifier(tuple(_codes(models)))
    ranked = identifier.rank(text) if codes and any(map(str.isalpha, text)) else []
    return [(codes[name], 100 * float(share)) for name, share in ranked]


def _codes(models: Sequence[ServedModel]) -> list[str]:
    """Returns the codes of the served languages."""
    return sorted({code for served in models for code in (served.source, served.target)} - {""})


@functools.lru_cache(maxsize=4)
def _identifier(languages: tuple[str, ...]):
    """Returns py3langid's identifier of these languages, and the code for each of its own."""
    identifier = load_identifier()
    known = set(identifier.nb_classes)
    names = ((code.partition("_")[0].lower(), code) for code in reversed(languages))
    codes = {name: code for name, code in names if name in known}
    identifier.set_languages(list(codes))
    return identifier, codes
