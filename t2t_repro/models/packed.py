"""What a packed batch says about its sentences; `data/packing.py` has what packing is."""

from typing import Any, NamedTuple

from t2t_repro.errors import UserError

FEATURES = (
    *("inputs_segmentation", "inputs_position"),
    *("targets_segmentation", "targets_position"),
)


class Segments(NamedTuple):
    """One side of a packed batch.

    Attributes:
        numbers: int32 (B, T), the segment of each position, from 1; 0: padding.
        positions: int32 (B, T), the place in the segment, from 0.
    """

    numbers: Any
    positions: Any


def segments(batch: dict) -> tuple[Segments | None, Segments | None]:
    """Returns the segments of the inputs and of the targets; None twice if nothing is packed.

    Raises:
        UserError: if the batch has some of the four features and lacks others.
    """
    given = [batch[name] for name in FEATURES if name in batch]
    if not given:
        return None, None
    if len(given) < len(FEATURES):
        missing = ", ".join(name for name in FEATURES if name not in batch)
        raise UserError(
            f"Expected a packed batch to have {', '.join(FEATURES)}. Received: no {missing}."
        )
    return Segments(*given[:2]), Segments(*given[2:])
