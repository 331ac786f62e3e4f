"""Runs all checks over a corpus: in a first pass models of it are made, in a second it is judged.

Memory holds a sample of the pairs, and of all others some 60 bytes a pair.
"""

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

from t2t_repro.corpora.checks import models
from t2t_repro.corpora.checks.block import Block, blocks
from t2t_repro.corpora.checks.models import Models
from t2t_repro.corpora.checks.report import FIRST, Corpus, Example, Report, finding, visible
from t2t_repro.corpora.checks.table import CHECKS

Track = Callable[[Iterable, str, int | None, str], Iterable]


def examine(
    corpus: Corpus,
    track: Track = lambda items, doing, total, unit: items,
    *,
    keep: Collection[str] = (),
    alone: Collection[str] = (),
) -> Report:
    """Returns what all checks find.

    Args:
        corpus: {split: a function that returns all its pairs, the same whenever it is called};
            "train" first.
        track: as `progress.track`.
        keep: the names of checks for which no pair is to be left out.
        alone: the splits that are text to score, of which no pair is left out.
    """
    known = models.fit(_blocks(corpus, track, "reading the corpus", None))
    total = sum(len(each.pair) for each in known.repeated.values())
    marks: dict[str, list[np.ndarray]] = {split: [] for split in corpus}
    first: list[list[Example]] = [[] for _ in CHECKS]
    for block in _blocks(corpus, track, "checking the corpus", total):
        marks[block.split].append(_marks(block, known, first))
    if known.language.same:
        keep = {*keep, "copy"}  # such as sentences to correct, many of which are right
    none = [np.zeros(0, np.uint32)]
    every = {split: np.concatenate(parts or none) for split, parts in marks.items()}
    findings = [
        finding(number, every, first[number], check.name in keep)
        for number, check in enumerate(CHECKS)
    ]
    notes = [
        f"{each.share:.0%} of the pairs: {each.check.text}. That is how this corpus is; "
        "none is left out for it."
        for each in findings
        if each.usual and each.check.name not in keep
    ]
    if known.language.same:
        notes.append("Both sides seem to be in one language: pairs of equal sides may be right.")
    if any(known.moses_escaped):
        notes.append(
            "The text is tokenized and escaped as Moses does (&apos; for '): a translator that is "
            "trained on it wants its input so, and writes so. detokenizer.perl undoes it."
        )
    return Report(
        {split: len(of) for split, of in every.items()},
        known.language.names,
        findings,
        notes,
        every,
        alone,
    )


def _blocks(corpus: Corpus, track: Track, doing: str, total: int | None) -> Iterator[Block]:
    tagged = ((split, pair) for split, read in corpus.items() for pair in read())
    tracked = track(tagged, doing, total, "pairs")
    for split, group in itertools.groupby(tracked, operator.itemgetter(0)):
        yield from blocks(split, map(operator.itemgetter(1), group))


def _marks(block: Block, known: Models, first: list[list[Example]]) -> np.ndarray:
    marks = np.zeros(len(block), np.uint32)
    for number, check in enumerate(CHECKS):
        found = check.find(block, known)
        if not found.any():
            continue
        marks |= found.astype(np.uint32) << np.uint32(number)
        for i in np.flatnonzero(found)[: FIRST - len(first[number])]:
            texts = (visible(side.texts[i]) for side in block.sides)
            first[number].append(Example(block.split, block.first + int(i) + 1, *texts))
    return marks
