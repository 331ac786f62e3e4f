"""Whether translations of the same sentences differ by more than chance, by sacreBLEU."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t_repro.scoring.bleu import tokenizer_of


@dataclasses.dataclass(frozen=True)
class Scored:
    """BLEU in percent, and half of its 95 % interval."""

    bleu: float
    interval: float

    def __str__(self) -> str:
        return f"{self.bleu:.2f} ± {self.interval:.2f}"


@dataclasses.dataclass(frozen=True)
class Paired:
    """A translation and a baseline, and the probability of such a difference by chance."""

    baseline: Scored
    translation: Scored
    p_value: float
    signature: str

    def __str__(self) -> str:
        change = self.translation.bleu - self.baseline.bleu
        return (
            f"baseline {self.baseline}, translation {self.translation}: {change:+.2f} BLEU "
            f"(p = {self.p_value:.3f}); {self.signature}"
        )


def paired(
    baseline: Sequence[str], translation: Sequence[str], references: Sequence[str]
) -> Paired:
    """Returns the scores of a translation and a baseline, by sacreBLEU's paired bootstrap.

    Source: Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation".

    Args:
        baseline, translation: of the same sentences.
        references: one of each sentence.
    """
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems = [("baseline", baseline), ("translation", translation)]
    bleu = BLEU(tokenize=tokenizer_of(references))
    signatures, scores = PairedTest(systems, {"BLEU": bleu}, [references], "bs")()
    found: Any = scores["BLEU"]
    before, after = (Scored(float(each.score), float(each.ci)) for each in found)
    # sacreBLEU counts the resamples that differ by more, which of equal ones none does.
    p_value = 1.0 if before.bleu == after.bleu else found[1].p_value
    return Paired(before, after, p_value, str(signatures["BLEU"]))
