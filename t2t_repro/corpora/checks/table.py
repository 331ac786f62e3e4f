"""The checks: what each finds, how grave that is, and whether such a pair is surely a fault."""

import dataclasses
from collections.abc import Callable

import numpy as np

from t2t_repro.corpora.checks import characters, content, languages, lengths, lexical, slips
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
        drop: whether --drop_bad_pairs leaves such a pair out.
        text: what is wrong with the pairs that it finds.
        find: returns bool (N,), which of the N pairs of a block they are.
    """

    name: str
    severity: str
    drop: bool
    text: str
    find: Callable[[Block, Models], np.ndarray]


def _again(block: Block, models: Models, kind: str) -> np.ndarray:
    every = getattr(models.repeated[block.split], kind)
    return every[block.first : block.first + len(block)]


def _leaked(block: Block, models: Models) -> np.ndarray:
    characters = block.sources.lengths + block.targets.lengths
    return _again(block, models, "in_held_out") & (characters > _SHORT)


def _source_leaked(block: Block, models: Models) -> np.ndarray:
    return _again(block, models, "source_in_held_out") & ~_again(block, models, "in_held_out")


def _held_out_twice(block: Block, models: Models) -> np.ndarray:
    characters = block.sources.lengths + block.targets.lengths
    return _again(block, models, "source_in_other") & (characters > _SHORT)


CHECKS = (
    Check("empty", ERROR, True, "one side is empty", characters.one_side_empty),
    Check("leakage", ERROR, True, "the pair is in dev or test too", _leaked),
    Check("blank", WARNING, True, "both sides are empty", characters.both_sides_empty),
    Check(
        "copy",
        WARNING,
        True,
        "the target is the source, untranslated",
        lambda block, models: content.copied_sentence(block),
    ),
    Check(
        "short_copy",
        WARNING,
        False,
        "both sides are the same, but so short that it may be right",
        lambda block, models: content.copied(block) & ~content.copied_sentence(block),
    ),
    Check(
        "duplicate",
        WARNING,
        True,
        "the pair was there before",
        lambda block, models: _again(block, models, "pair"),
    ),
    Check(
        "many_targets",
        WARNING,
        False,
        "the source has four or more different targets",
        lambda block, models: _again(block, models, "many_targets"),
    ),
    Check(
        "source_leakage",
        WARNING,
        False,
        "the source is in dev or test too, with another target",
        _source_leaked,
    ),
    Check(
        "held_out_twice",
        WARNING,
        False,
        "the source is both in dev and in test, which are to be independent",
        _held_out_twice,
    ),
    Check("markup", WARNING, True, "HTML or XML: tags or entities", characters.markup),
    Check(
        "invisible",
        WARNING,
        True,
        "control characters, tabs, or characters without width",
        characters.invisible,
    ),
    Check(
        "encoding",
        WARNING,
        True,
        "letters that were read in a wrong encoding",
        characters.encoding,
    ),
    Check(
        "swapped",
        WARNING,
        True,
        "the two sides changed places",
        lambda block, models: languages.swapped(block, models.language),
    ),
    Check(
        "wrong_language",
        WARNING,
        True,
        "a side is in another language than the rest of it",
        lambda block, models: languages.wrong_language(block, models.language),
    ),
    Check(
        "wrong_script",
        WARNING,
        True,
        "most letters of a side are of another script than the rest of it",
        lambda block, models: languages.wrong_script(block, models.language),
    ),
    Check(
        "slipped",
        WARNING,
        True,
        "in a stretch of lines, the targets belong to sources some lines away",
        lambda block, models: slips.slipped(block, models.lexicon),
    ),
    Check(
        "unrelated",
        WARNING,
        False,
        "hardly a word of the target belongs to the source, by the corpus's own words",
        lambda block, models: lexical.unrelated(block, models.lexicon),
    ),
    Check(
        "length_ratio",
        WARNING,
        True,
        "one side is much longer than usual beside the other",
        lambda block, models: lengths.unusual_ratio(block, models.ratio),
    ),
    Check(
        "too_long",
        WARNING,
        False,
        f"more than {lengths.LONG} characters or {lengths.WORDS} words",
        lambda block, models: lengths.too_long(block),
    ),
    Check(
        "numbers",
        WARNING,
        False,
        "both sides have numbers, but not the same ones",
        lambda block, models: content.numbers_differ(block),
    ),
    Check(
        "question",
        WARNING,
        False,
        "one side asks, the other does not",
        lambda block, models: content.question_differs(block),
    ),
)
