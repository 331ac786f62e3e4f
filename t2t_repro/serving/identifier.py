"""In which of the languages that are served a text is written, by py3langid."""

import functools
from collections.abc import Sequence

from t2t_repro.corpora.checks.languages import load_identifier


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


@functools.cache
def known_codes() -> frozenset[str]:
    """Returns the codes of the languages that py3langid knows."""
    return frozenset(load_identifier().nb_classes)


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
