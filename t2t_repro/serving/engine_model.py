"""An engine that decodes ids, with its vocabulary, as the server calls an export: text to text."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import FILLER, LONGEST_INPUT, DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.serving.exported import Attention, Hypothesis, Question


class EngineModel:
    """Has what `ExportedModel` has; but it draws no attention.

    Args:
        engine: what decodes.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        settings: how it decodes where a question does not say.
        sha256: of the file of its weights.
    """

    any_alpha, has_attention, counts_at_once = True, False, True

    def __init__(
        self, engine: Engine, encoders: dict[str, Any], settings: DecodeHParams, sha256: str
    ):
        self._engine, self._encoders, self.sha256 = engine, encoders, sha256
        self._settings = settings
        self.beam_size, self.alpha = settings.beam_size, settings.alpha
        self.longest = self._translator(self.alpha, beams=False).longest or LONGEST_INPUT

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has."""
        return [1 + len(self._encoders["inputs"].encode(text.strip())) for text in texts]

    def count_target_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each translation has."""
        return [1 + len(self._encoders["targets"].encode(text.strip())) for text in texts]

    def translate(self, questions: Sequence[Question]) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each question, best first, `beam_size` of them or fewer.

        Those of one alpha are one batch: the server has seen to its size.
        """
        beams = any(question.beams for question in questions)
        answers: dict[int, list[Hypothesis]] = {}
        alphas = [self.alpha if q.alpha is None else q.alpha for q in questions]
        for alpha in set(alphas):  # a search has one
            rows = [i for i, own in enumerate(alphas) if own == alpha]
            lines = (questions[i].text for i in rows)
            translator = self._translator(alpha, beams, batch_size=len(rows))
            translated = translator.translate_lines(lines)
            for i, found in zip(rows, translated, strict=True):
                answers[i] = [
                    Hypothesis(
                        one_line(each.text), each.score if math.isfinite(each.score) else None
                    )
                    for number, each in enumerate(found)
                    if number == 0 or each.score > FILLER
                ]
        return [answers[i] for i in range(len(questions))]

    def attend(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Nobody calls it: `has_attention` is false."""
        raise NotImplementedError

    def _translator(self, alpha: float, beams: bool, batch_size: int = 0) -> Translator:
        settings = dataclasses.replace(
            self._settings,
            alpha=float(alpha),
            return_beams=beams and self.beam_size > 1,
            batch_size=batch_size,
        )
        return Translator(self._engine, self._encoders, settings, warn=lambda text: None)
