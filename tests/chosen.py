"""What t2t-finish chooses, for what reads it."""

from t2t_repro.decoding.chosen import Beams, Chosen, Weights


def choice(step: int, bleu: float, search: Beams) -> Chosen:
    """Returns that of the only weights and the only search that were tried."""
    weights = Weights("the newest checkpoint", (step,), bleu)
    return Chosen(
        weights=weights,
        search=search,
        sentences="all 7 dev sentences",
        signature="x",
        asked={},
        weights_tried=(weights,),
        searches_tried=(search,),
    )
