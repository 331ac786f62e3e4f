"""What a quicker form of a model costs: its BLEU beside the model's own, on the same sentences."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from t2t_repro import progress
from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.scoring import bleu
from t2t_repro.text.encoders import EOS_ID


@dataclasses.dataclass(frozen=True)
class Comparison:
    """BLEU (sacrebleu's, in percent) of the model and of its other form, and what is the same."""

    before: float
    after: float
    identical: int
    sentences: int

    @property
    def drop(self) -> float:
        """How much BLEU is lost; negative where some is won."""
        return self.before - self.after

    def __str__(self) -> str:
        change = "gain" if round(self.drop, 2) < 0 else "drop"
        return (
            f"BLEU {self.after:.2f}, of the model itself {self.before:.2f}: a {change} of "
            f"{abs(self.drop):.2f} on {self.sentences} sentences, {self.identical} of them "
            "identical"
        )


def compare(
    model: keras.Model,
    engine: Engine,
    encoders: dict[str, Any],
    examples: Sequence[dict[str, list[int]]],
    settings: DecodeHParams | None = None,
) -> Comparison:
    """Decodes with both.

    Args:
        model: a trained `Transformer`.
        engine: another form of it.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        examples: {"inputs": ids, "targets": ids}, each ending with 1.
        settings: how to decode.
    """
    settings = settings or DecodeHParams()
    references = [
        encoders["targets"].decode([i for i in example["targets"] if i != EOS_ID])
        for example in examples
    ]

    own = engine if isinstance(engine, ModelEngine) else ModelEngine(model)
    cut = Translator(own, encoders, settings).cut
    sources = [cut(e["inputs"], f"Sentence {n} of dev") for n, e in enumerate(examples, 1)]
    with progress.report("Decoding dev twice", 2 * len(sources), "sentences") as advance:

        def texts(engine: Engine) -> list[str]:
            translated = Translator(engine, encoders, settings).translate_ids(sources, advance)
            return [hypotheses[0].text for hypotheses in translated]

        before = texts(own)
        after = texts(engine)
    return Comparison(
        before=bleu.score(before, references).sacrebleu.score,
        after=bleu.score(after, references).sacrebleu.score,
        identical=sum(a == b for a, b in zip(before, after, strict=True)),
        sentences=len(examples),
    )


def check(comparison: Comparison, max_bleu_drop: float | None) -> None:
    """Refuses a drop that is greater than `max_bleu_drop`; None accepts any.

    Raises:
        UserError: with the drop.
    """
    if max_bleu_drop is not None and comparison.drop > max_bleu_drop:
        raise UserError(
            f"Expected a drop of at most {max_bleu_drop} BLEU. Received: {comparison}. Nothing was "
            "written. Weights of more bits lose less; or raise --max_bleu_drop."
        )
