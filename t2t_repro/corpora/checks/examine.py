"""Runs all checks over a corpus: in a first pass models of it are made, in a second it is judged.

Memory holds a sample of the pairs, and of all others some 60 bytes a pair.
"""

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np

from t2t_repro.corpora.checks import models
from t2t_repro.corpora.checks.block import Block, Pair, blocks
from t2t_repro.corpora.checks.fingerprints import TRAIN
from t2t_repro.corpora.checks.models import Models
from t2t_repro.corpora.checks.report import FIRST, Example, Histogram, Report, finding, visible
from t2t_repro.corpora.checks.table import CHECKS
from t2t_repro.errors import UserError

Corpus = Mapping[str, Callable[[], Iterable[Pair]]]
Track = Callable[[Iterable, str, int | None, str], Iterable]

_LENGTHS = [0, 1, 10, 20, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 1000]
_RATIOS = [0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5]


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

    Raises:
        UserError: if the second pass has other pairs than the first.
    """
    known = models.fit(_blocks(corpus, track, "reading the corpus", None))
    total = sum(len(each.pair) for each in known.repeated.values())
    marks: dict[str, list[np.ndarray]] = {split: [] for split in corpus}
    first: list[list[Example]] = [[] for _ in CHECKS]
    charts = _Charts()
    for block in _blocks(corpus, track, "checking the corpus", total):
        _check_number(known, block.split, block.first + len(block), whole=False)
        marks[block.split].append(_marks(block, known, first))
        if block.split == TRAIN:
            charts.add(block)
    if known.language.same:
        keep = {*keep, "copy"}  # such as sentences to correct, many of which are right
    none = [np.zeros(0, np.uint32)]
    every = {split: np.concatenate(parts or none) for split, parts in marks.items()}
    for split, of in every.items():
        _check_number(known, split, len(of), whole=True)
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
        charts.histograms(),
        every,
        alone,
    )


def _blocks(corpus: Corpus, track: Track, doing: str, total: int | None) -> Iterator[Block]:
    tagged = ((split, pair) for split, read in corpus.items() for pair in read())
    tracked = track(tagged, doing, total, "pairs")
    for split, group in itertools.groupby(tracked, operator.itemgetter(0)):
        yield from blocks(split, map(operator.itemgetter(1), group))


def _check_number(known: Models, split: str, count: int, *, whole: bool) -> None:
    """Refuses pairs that are not as many as in the first pass, by whose numbers they are known."""
    before = len(known.repeated[split].pair) if split in known.repeated else 0
    if count > before or whole and count < before:
        raise UserError(
            f"Expected the {before:,} pairs of {split} again that were read first. Received: "
            f"{count:,}{'' if whole else ' or more'}. Files must stay as they are while they are "
            "read, and samples that are drawn at random be the same each time: give them a seed."
        )


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


class _Charts:
    """Histograms of the lengths and of their ratio."""

    def __init__(self) -> None:
        self._lengths = np.zeros((2, len(_LENGTHS)), np.int64)
        self._ratios = np.zeros(len(_RATIOS), np.int64)

    def add(self, block: Block) -> None:
        for counts, side in zip(self._lengths, block.sides, strict=True):
            counts += _count(side.lengths, _LENGTHS)
        sources, targets = (side.lengths for side in block.sides)
        there = (sources > 0) & (targets > 0)
        self._ratios += _count(targets[there] / sources[there], _RATIOS)

    def histograms(self) -> list[Histogram]:
        """Returns them; the last range of each has no end."""
        return [
            Histogram("characters of a source", _LENGTHS, self._lengths[0].tolist()),
            Histogram("characters of a target", _LENGTHS, self._lengths[1].tolist()),
            Histogram("characters of a target by its source's", _RATIOS, self._ratios.tolist()),
        ]


def _count(values: np.ndarray, edges: list) -> np.ndarray:
    return np.bincount(np.searchsorted(edges, values, "right") - 1, minlength=len(edges))
