"""Whether translations of the same sentences differ by more than chance, by sacreBLEU."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from t2t_repro.scoring.bleu import tokenizer_of


class Tested(NamedTuple):
    """The BLEU of one translation: in percent, half of its 95 % interval, and how likely it would
    seem as different from the first by chance (None of the first itself)."""

    score: float
    interval: float
    p_value: float | None


def paired_bootstrap(
    translations: Sequence[Sequence[str]], references: Sequence[str]
) -> tuple[list[Tested], str]:
    """Returns how each translation scores beside the first, and sacreBLEU's signature.

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
