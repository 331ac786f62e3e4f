"""distill.json: what was made of what, by which commands, and how student and teacher compare."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from t2t_repro.distilling.comparison import Comparison
from t2t_repro.own_text.begun import Begun


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Begun):
    """What there is so far; its inputs are the teacher's weights and the texts.

    Attributes:
        pairs: {what: how many} of the training text.
        comparison: of student and teacher; None before there is one.
    """

    FILE: ClassVar[str] = "distill.json"
    PROGRAM: ClassVar[str] = "t2t-distill"
    RESULTS: ClassVar[Mapping[str, tuple[str, Any]]] = {"comparison": ("comparison", None)}

    pairs: dict[str, int] = dataclasses.field(default_factory=dict)
    comparison: Comparison | None = None
