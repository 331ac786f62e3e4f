"""Sentences that nearly repeat others: the same words, or most of the same runs of three.

Case, punctuation, spaces and numbers do not count. An index holds the sentences that are looked
for, so that a corpus of any size passes by them.
"""

import re
import unicodedata
from collections.abc import Iterable

# Letters of scripts without spaces are words by themselves: Thai to Lao, Burmese, Khmer, kana, Han.
_SINGLE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_RUN = 3  # words


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a sentence without what does not count.

    Where there are no others, numbers and then punctuation count after all.
    """
    text = text.casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found = _WORD.findall(_NUMBER.sub("0", text))
    if all(word == "0" for word in found):
        return tuple(_WORD.findall(text)) or tuple(text.split())
    return tuple(found)


def runs(found: tuple[str, ...]) -> set[int]:
    """Returns the hashes of all runs of three words; none of fewer words."""
    return set(map(hash, zip(found, found[1:], found[2:], strict=False)))


class Index:
    """Sentences to look for, by number.

    Args:
        texts: the sentences; the first has number 0.
    """

    def __init__(self, texts: Iterable[str]):
        self._by_words: dict[tuple[str, ...], list[int]] = {}
        self._by_run: dict[int, list[int]] = {}
        self._sizes: list[int] = []
        for number, text in enumerate(texts):
            found = words(text)
            self._by_words.setdefault(found, []).append(number)
            of_text = runs(found)
            self._sizes.append(len(of_text))
            for run in of_text:
                self._by_run.setdefault(run, []).append(number)

    def same(self, text: str) -> list[int]:
        """Returns the sentences of the same words."""
        return self._by_words.get(words(text), [])

    def near(self, text: str) -> list[int]:
        """Returns the sentences of the same words, or that share half of the runs of the longer."""
        found = words(text)
        same = self._by_words.get(found, [])
        of_text = runs(found)
        hits = of_text & self._by_run.keys()
        if 2 * len(hits) < len(of_text) or not hits:
            return same
        shared: dict[int, int] = {}
        for run in hits:
            for number in self._by_run[run]:
                shared[number] = shared.get(number, 0) + 1
        return [
            number
            for number, count in shared.items()
            if 2 * count >= max(len(of_text), self._sizes[number])
        ]
