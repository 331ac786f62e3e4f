"""The parts of speech that a word may have: a tag dictionary (Ratnaparkhi, 1996)."""

import os
from collections import Counter, defaultdict

from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.parsing.trees import split

UNKNOWN_WORD = "<UNK>"
RARE = 5  # words seen less often may have every open part of speech as well
OPEN = 10  # a part of speech is open that so many rare words have


def parts_of_speech(words: str, tags: str, where: str = "trees") -> list[str]:
    """Returns the part of speech of each word, by the linearised tags of its sentence.

    Args:
        words: the sentence, cut at blanks.
        tags: its tags.
        where: begins the message of an error, such as "wsj.trees, line 7".

    Raises:
        UserError: if the tags do not tell the words' from those of phrases.
    """
    tokens = split(tags)
    closed = {token[1:] for token in tokens if len(token) > 1 and token.startswith("/")}
    labels = [t for t in tokens if t not in closed and not (t[0] == "/" and t[1:] in closed)]
    if len(labels) != len(split(words)):
        expected = "one part of speech per word, and none that is also a phrase label"
        raise UserError(f"{where}: expected {expected}. Received: {tags!r} for {words!r}.")
    return labels


class Lexicon:
    """Counts the parts of speech of words."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, words: str, tags: str) -> None:
        """Counts a sentence and its linearised tags.

        Raises:
            UserError: as `parts_of_speech`.
        """
        for word, label in zip(split(words), parts_of_speech(words, tags), strict=True):
            self._counts[word][label] += 1

    def entries(self) -> dict[str, list[str]]:
        """Returns the parts of speech of each word, and under UNKNOWN_WORD those of all others."""
        rare = {word for word, counts in self._counts.items() if counts.total() < RARE}
        having = Counter(label for word in rare for label in self._counts[word])
        # Of no rare word at all nothing is known of others, which may then have any.
        every = {label for counts in self._counts.values() for label in counts}
        open_labels = {label for label, words in having.items() if words >= OPEN}
        open_labels = open_labels or set(having) or every
        entries = {UNKNOWN_WORD: sorted(open_labels)}
        for word, counts in sorted(self._counts.items()):
            if word not in rare:
                entries[word] = sorted(counts)
            elif not set(counts) <= open_labels:
                entries[word] = sorted(open_labels | set(counts))
        return entries

    def write(self, path: str | os.PathLike) -> None:
        """Writes a line for each entry: the word, and its parts of speech."""
        lines = (" ".join([word, *labels]) for word, labels in self.entries().items())
        write_text_atomic(path, "".join(f"{line}\n" for line in lines))
