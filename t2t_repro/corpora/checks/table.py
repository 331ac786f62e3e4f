"""The checks: what each finds, and how grave that is. Each finds what is surely a fault."""

import dataclasses
from collections.abc import Callable

import numpy as np

from t2t_repro.corpora.checks import characters, languages, lengths, slips
from t2t_repro.corpora.checks.block import Block
from t2t_repro.corpora.checks.models import Models

ERROR, WARNING = "error", "warning"
_SHORT = 20  # characters of a pair, such as "Yes." and "Ja.", that may well be in two splits


@dataclasses.dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        name: in the report and in the file of pairs that were left out.
        severity: ERROR stops t2t-datagen, WARNING does not.
        text: what is wrong with the pairs that it finds.
        find: returns bool (N,), which of the N pairs of a block they are.
    """

    name: str
    severity: str
    text: str
    find: Callable[[Block, Models], np.ndarray]


def _duplicate(block: Block, models: Models) -> np.ndarray:
    return models.repeated[block.split].pair[block.first : block.first + len(block)]


def _leaked(block: Block, models: Models) -> np.ndarray:
    found = models.repeated[block.split].in_held_out[block.first : block.first + len(block)]
    return found & (block.sources.lengths + block.targets.lengths > _SHORT)


CHECKS = (
    Check("empty", ERROR, "one side is empty", characters.one_side_empty),
    Check("leakage", ERROR, "the pair is in dev or test too", _leaked),
    Check("blank", WARNING, "both sides are empty", characters.both_sides_empty),
    Check("copy", WARNING, "the target is the source, untranslated", characters.copied),
    Check("duplicate", WARNING, "the pair was there before", _duplicate),
    Check("markup", WARNING, "HTML or XML: tags or entities", characters.markup),
    Check(
        "invisible",
        WARNING,
        "control characters, tabs, or characters without width",
        characters.invisible,
    ),
    Check("encoding", WARNING, "letters that were read in a wrong encoding", characters.encoding),
    Check(
        "swapped",
        WARNING,
        "the two sides changed places",
        lambda block, models: languages.swapped(block, models.language),
    ),
    Check(
        "wrong_language",
        WARNING,
        "a side is in another language than the rest of it",
        lambda block, models: languages.wrong_language(block, models.language),
    ),
    Check(
        "wrong_script",
        WARNING,
        "most letters of a side are of another script than the rest of it",
        lambda block, models: languages.wrong_script(block, models.language),
    ),
    Check(
        "slipped",
        WARNING,
        "in a stretch of lines, the targets belong to sources some lines away",
        lambda block, models: slips.slipped(block, models.lexicon),
    ),
    Check(
        "length_ratio",
        WARNING,
        "one side is much longer than usual beside the other",
        lambda block, models: lengths.unusual_ratio(block, models.ratio),
    ),
)
