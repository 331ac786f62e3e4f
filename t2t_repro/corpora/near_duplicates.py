"""Near-duplicates: sentences with the same words, or half of the runs of three words.

Case, punctuation, spaces and numbers do not count. An index holds the sentences to look for, so
that the corpus may have any size.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator

from t2t_repro.text.tokenizer import SINGLE  # words by themselves here

# What a reader does not see: soft hyphens, joiners, places to break a line, marks of direction and
# of an encoding.
UNSEEN = "\xad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_NUMBERS = re.compile(r"\b0+(?: +0+)*\b")


class _Letters(dict[int, str]):
    """What becomes of each character: a letter stays, a digit is 0, all others that are seen are
    spaces."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)[0]
        if SINGLE.match(character):
            character = f" {character} "
        elif character.isdigit():
            character = "0"
        elif kind not in "LMN":
            character = " " * (character not in UNSEEN)
        self[code] = character
        return character


_LETTERS = _Letters()


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a sentence that count.

    If there are none, numbers and then punctuation count.
    """
    text = text.casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    letters = text.translate(_LETTERS)
    if "0" in letters:
        letters = _NUMBERS.sub("0", letters)
    found = tuple(letters.split())
    if not found or found == ("0",):
        return tuple(re.findall(r"\w+", text)) or tuple(text.split())
    return found


def runs(found: tuple[str, ...]) -> Iterator[int]:
    """Yields the hashes of all runs of three words; none of fewer words."""
    return map(hash, zip(found, found[1:], found[2:], strict=False))


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
            of_text = set(runs(found))
            self._sizes.append(len(of_text))
            for run in of_text:
                self._by_run.setdefault(run, []).append(number)

    def drop(self, number: int, text: str) -> None:
        """Removes a sentence, whose text is `text`."""
        found = words(text)
        self._by_words[found].remove(number)
        for run in set(runs(found)):
            self._by_run[run].remove(number)
            if not self._by_run[run]:
                del self._by_run[run]

    def same(self, text: str) -> list[int]:
        """Returns the sentences of the same words."""
        return self._by_words.get(words(text), [])

    def near(self, text: str) -> list[int]:
        """Returns the sentences of the same words, or that share half of the runs of the longer."""
        found = words(text)
        same = self._by_words.get(found, [])
        of_text = set(runs(found))
        hits, size = self._by_run.keys() & of_text, len(of_text)
        if 2 * len(hits) < size or not hits:
            return same
        shared = Counter(itertools.chain.from_iterable(self._by_run[run] for run in hits))
        return [
            number
            for number, count in shared.items()
            if 2 * count >= max(size, self._sizes[number])
        ]
