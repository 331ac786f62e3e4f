"""Whether translations of the same sentences differ by more than chance, by sacreBLEU."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

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

    @property
    def change(self) -> float:
        """BLEU gained."""
        return self.translation.bleu - self.baseline.bleu

    def __str__(self) -> str:
        return (
            f"baseline {self.baseline}, translation {self.translation}: {self.change:+.2f} BLEU "
            f"(p = {self.p_value:.3f}); {self.signature}"
        )


def paired(
    baseline: Sequence[str], translation: Sequence[str], references: Sequence[str]
) -> Paired:
    """Returns the scores of a translation and a baseline, by sacreBLEU's paired bootstrap."""
    (old, new), signature = paired_bootstrap([baseline, translation], references)
    assert new.p_value is not None  # of the first alone there is none
    before, after = (Scored(each.score, each.interval) for each in (old, new))
    return Paired(before, after, new.p_value, signature)


class Tested(NamedTuple):
    """The BLEU of one translation: in percent, half of its 95 % interval, and the probability of
    such a difference from the first by chance (None for the first)."""

    score: float
    interval: float
    p_value: float | None


def paired_bootstrap(
    translations: Sequence[Sequence[str]], references: Sequence[str]
) -> tuple[list[Tested], str]:
    """Returns the scores of each translation against the first, and sacreBLEU's signature.

    Source: Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation".

    Args:
        translations: of the same sentences, one or more.
        references: one of each sentence.
    """
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    systems = [(str(number), lines) for number, lines in enumerate(translations)]
    bleu = BLEU(tokenize=tokenizer_of(references))
    signatures, scores = PairedTest(systems, {"BLEU": bleu}, [references], "bs")()
    found = cast(list[Any], scores["BLEU"])
    tested = []
    for each in found:
        p_value = each.p_value
        # sacreBLEU counts the resamples that differ by more, which of equal ones none does.
        if p_value is not None and each.score == found[0].score:
            p_value = 1.0
        tested.append(Tested(float(each.score), float(each.ci), p_value))
    return tested, str(signatures["BLEU"])
