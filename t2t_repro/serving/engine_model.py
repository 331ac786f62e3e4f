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
        settings: how it decodes.
        sha256: of the file of its weights.
    """

    has_attention, counts_at_once = False, True

    def __init__(
        self, engine: Engine, encoders: dict[str, Any], settings: DecodeHParams, sha256: str
    ):
        self._engine, self._encoders, self.sha256 = engine, encoders, sha256
        self._settings = settings
        self.beam_size, self.alpha = settings.beam_size, settings.alpha
        self.longest = self._translator(beams=False).longest or LONGEST_INPUT

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has."""
        return [1 + len(self._encoders["inputs"].encode(text.strip())) for text in texts]

    def count_target_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each translation has."""
        return [1 + len(self._encoders["targets"].encode(text.strip())) for text in texts]

    def translate(self, questions: Sequence[Question]) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each question, best first, `beam_size` of them or fewer.

        They are one batch: the server has seen to its size.
        """
        beams = any(question.beams for question in questions)
        translator = self._translator(beams, batch_size=len(questions))
        return [
            [
                Hypothesis(one_line(each.text), each.score if math.isfinite(each.score) else None)
                for number, each in enumerate(found)
                if number == 0 or each.score > FILLER
            ]
            for found in translator.translate_lines(question.text for question in questions)
        ]

    def attend(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Nobody calls it: `has_attention` is false."""
        raise NotImplementedError

    def _translator(self, beams: bool, batch_size: int = 0) -> Translator:
        settings = dataclasses.replace(
            self._settings,
            return_beams=beams and self.beam_size > 1,
            batch_size=batch_size,
        )
        return Translator(self._engine, self._encoders, settings, warn=lambda text: None)
