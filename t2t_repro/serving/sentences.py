"""Texts in sentences: a model has learned from sentences, and whoever asks sends texts."""

import dataclasses
from collections.abc import Iterable

import sentencex

from t2t_repro.serving.exported import Hypothesis

# Characters that are split at once: where quotation marks are not closed, sentencex takes a time
# with the square of what it gets, and everyone else waits.
PIECE = 4000


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, their ends left out; one more than there are ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@dataclasses.dataclass(frozen=True)
class Text:
    """A text and its sentences, line by line; a blank line has none."""

    text: str
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, text: str, language: str, split: bool = True, most: int | None = None) -> "Text":
        """Returns a text in sentences.

        Args:
            text: with any number of lines.
            language: its code in ISO 639, whose abbreviations end no sentence.
            split: whether to split it; else it is one sentence.
            most: stop behind so many sentences and some more; None: split all of it.
        """
        if not split:
            return cls(text, ((text,),) if text.strip() else ((),))
        found: list[tuple[str, ...]] = []
        count = 0
        for line in lines_of(text):
            left = None if most is None else most - count
            found.append(tuple(_segmented(line.strip(), language, left)))
            count += len(found[-1])
            if most is not None and count > most:
                break
        return cls(text, tuple(found))

    @property
    def sentences(self) -> list[str]:
        return [sentence for line in self.lines for sentence in line]

    def joined(self, translations: Iterable[str]) -> str:
        """Returns the translations of the sentences, each in its sentence's line."""
        rest = iter(translations)
        return "\n".join(" ".join(next(rest) for _ in line) for line in self.lines)


def _segmented(line: str, language: str, most: int | None) -> list[str]:
    """Returns the sentences of a line, all, or more than `most`.

    It is split by pieces, whose last sentence may go on in the next. A piece without an end of a
    sentence is the beginning of one that is too long for any model: the line stays one with it.
    """
    found: list[str] = []
    while len(line) > PIECE and (most is None or len(found) <= most):
        *ended, last = sentencex.segment(language, line[:PIECE])
        if not ended:
            return [*found, line]
        found += [sentence.strip() for sentence in ended]
        line = (last + line[PIECE:]).lstrip()
    rest = sentencex.segment(language, line[:PIECE]) if line else ()
    return found + [sentence.strip() for sentence in rest]


@dataclasses.dataclass(frozen=True)
class Translation:
    """What an answer says of a sentence.

    Attributes:
        input: what was asked.
        translation: the best.
        score: its score; None of several sentences, each of which has its own.
        n_best: the hypotheses, best first; of several sentences the best alone.
    """

    input: str
    translation: str
    score: float | None
    n_best: list[Hypothesis]

    @classmethod
    def of(cls, sentence: str, hypotheses: list[Hypothesis]) -> "Translation":
        """Returns that of a sentence."""
        return cls(sentence, hypotheses[0].translation, hypotheses[0].score, hypotheses)


@dataclasses.dataclass(frozen=True)
class Whole(Translation):
    """What an answer says of a text, and of its sentences."""

    sentences: list[Translation]

    @classmethod
    def of_text(cls, text: Text, sentences: list[Translation]) -> "Whole":
        """Returns that of a text of these sentences."""
        joined = text.joined(sentence.translation for sentence in sentences)
        score, n_best = None, [Hypothesis(joined, None)]
        if len(sentences) == 1:
            score = sentences[0].score
            n_best = [
                dataclasses.replace(each, translation=text.joined([each.translation]))
                for each in sentences[0].n_best
            ]
        return cls(text.text, joined, score, n_best, sentences)
