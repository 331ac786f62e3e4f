"""Texts in sentences: a model has learned from sentences, and whoever asks sends texts."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import sentencex

from t2t_repro.serving.exported import Hypothesis
from t2t_repro.serving.guards import Guard, guards


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, their ends left out; one more than there are ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@dataclasses.dataclass(frozen=True)
class Text:
    """A text and its sentences, line by line; a blank line has none."""

    text: str
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, text: str, language: str, split: bool = True) -> "Text":
        """Returns a text in sentences.

        Args:
            text: with any number of lines.
            language: its code in ISO 639, whose abbreviations end no sentence.
            split: whether to split it; else it is one sentence.
        """
        if not split:
            return cls(text, ((text,),) if text.strip() else ((),))
        lines = (line.strip() for line in lines_of(text))
        found = (sentencex.segment(language, line) if line else () for line in lines)
        return cls(text, tuple(tuple(sentence.strip() for sentence in line) for line in found))

    @property
    def sentences(self) -> list[str]:
        return [sentence for line in self.lines for sentence in line]

    def joined(self, translations: Iterable[str]) -> str:
        """Returns the translations of the sentences, each in its sentence's line."""
        rest = iter(translations)
        return "\n".join(" ".join(next(rest) for _ in line) for line in self.lines)


@dataclasses.dataclass(frozen=True)
class Translation:
    """What an answer says of a text, or of a sentence of it.

    Attributes:
        input: what was asked.
        translation: the best.
        score: its score; None of several sentences, each of which has its own.
        n_best: the hypotheses, best first; of several sentences the best alone.
        flags: what the reader should beware of.
    """

    input: str
    translation: str
    score: float | None
    n_best: list[Hypothesis]
    flags: list[Guard]

    @classmethod
    def of(cls, sentence: str, hypotheses: list[Hypothesis]) -> "Translation":
        """Returns that of a sentence."""
        best = hypotheses[0].translation
        return cls(sentence, best, hypotheses[0].score, hypotheses, guards(sentence, best))

    @classmethod
    def of_text(cls, text: Text, sentences: list["Translation"]) -> "Translation":
        """Returns that of a text of these sentences."""
        if len(sentences) == 1:
            alone = sentences[0]
            whole = text.joined([alone.translation])
            return dataclasses.replace(alone, input=text.text, translation=whole)
        joined = text.joined(sentence.translation for sentence in sentences)
        flags = [flag for flag in Guard if any(flag in sentence.flags for sentence in sentences)]
        return cls(text.text, joined, None, [Hypothesis(joined, None)], flags)

    def as_json(self) -> dict[str, Any]:
        """Returns what an answer has by these names."""
        return {**vars(self), "n_best": [vars(hypothesis) for hypothesis in self.n_best]}
