"""How a tuned run decodes: decoding.json, of t2t-avg-all --tune, which all that decodes reads.

It loads nothing heavy.
"""

import dataclasses
import json
import pathlib
from typing import ClassVar

from t2t_repro import schema
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import TUNED

_MEND = "Delete it to decode with tensor2tensor's settings, or write it anew: t2t-avg-all --tune."


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights that were tried: the mean of the checkpoints of these steps, and its BLEU."""

    name: str
    steps: tuple[int, ...]
    bleu: float


@dataclasses.dataclass(frozen=True)
class Beams:
    """A search that was tried, and its BLEU."""

    beam_size: int
    alpha: float
    bleu: float

    def __post_init__(self):
        DecodeHParams(beam_size=self.beam_size, alpha=self.alpha)

    def __str__(self) -> str:
        return f"beam_size={self.beam_size},alpha={self.alpha:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunedDecoding:
    """What was chosen, and of what.

    Attributes:
        weights: the weights that were taken.
        search: how to decode with them.
        sentences: on which sentences that was found out, in words.
        signature: sacreBLEU's.
        asked: what was to be tried, as flags.
        weights_tried, searches_tried: everything that was tried.
        weights_digest: of the weights that lie beside it; "": of a version that kept none.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    weights: Weights
    search: Beams
    sentences: str
    signature: str
    asked: dict[str, str]
    weights_tried: tuple[Weights, ...]
    searches_tried: tuple[Beams, ...]
    weights_digest: str = ""

    def write(self, run: pathlib.Path) -> None:
        """Writes it into a run directory."""
        write_text_atomic(run / TUNED, json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def read(run: pathlib.Path) -> TunedDecoding | None:
    """Returns what was chosen for a run; None: nothing.

    Raises:
        schema.Malformed: if the file is broken.
    """
    try:
        return schema.read(run / TUNED, TunedDecoding, _MEND)
    except FileNotFoundError:
        return None
