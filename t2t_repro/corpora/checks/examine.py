"""Runs all checks over a corpus: a first pass makes models of it, a second judges it.

`CHECKS` lists the checks and their severity; each finds only certain faults. A `Report` has the
findings, for a terminal, for programs, and for the file of bad pairs. Memory holds a sample of the
pairs, and of all others some 60 bytes a pair.
"""

import dataclasses
import itertools
import operator
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.corpora.bad_pairs import BadPair
from t2t_repro.corpora.checks import characters, languages, lexical, models
from t2t_repro.corpora.checks.block import Block, Pair, blocks
from t2t_repro.corpora.checks.models import TRAIN, Models
from t2t_repro.files import write_json

Corpus = Mapping[str, Callable[[], Iterable[Pair]]]
ERROR, WARNING = "error", "warning"
FIRST = 10  # pairs shown of each check
_LONGEST = 200  # characters shown of a line
OFTEN = 0.3  # of the pairs: what is found that often is how the corpus is, and nothing to leave out
DECOMPOSED = 0.001  # of the lines of a side: as many letters in two forms are worth a word


@dataclasses.dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        name: in the report and in the file of dropped pairs.
        text: what is wrong with the pairs that it finds.
        find: returns bool (N,), which of the N pairs of a block they are.
        model: the field of `Models` that `find` gets beside the block; "": all of them.
        severity: ERROR stops t2t-datagen, WARNING does not.
    """

    name: str
    text: str
    find: Callable[[Block, Any], np.ndarray]
    model: str = ""
    severity: str = WARNING


CHECKS = (
    Check("empty", "one side is empty", characters.one_side_empty, severity=ERROR),
    Check("leakage", "the pair is also in dev or test", models.leaked, severity=ERROR),
    Check("blank", "both sides are empty", characters.both_sides_empty),
    Check("copy", "the target is a copy of the source", characters.copied),
    Check("duplicate", "the pair repeats an earlier one", models.duplicate),
    Check("markup", "HTML or XML tags or entities", characters.markup),
    Check("invisible", "control or zero-width characters, or tabs", characters.invisible),
    Check("encoding", "text decoded with the wrong encoding", characters.encoding),
    Check("swapped", "source and target are swapped", languages.swapped, "language"),
    Check("wrong_language", "a side is in a wrong language", languages.wrong_language, "language"),
    Check("wrong_script", "a side is in a wrong script", languages.wrong_script, "language"),
    Check("slipped", "the sides are shifted by some lines", lexical.slipped, "lexicon"),
    Check("length_ratio", "one side is much too long for the other", models.unusual_ratio, "ratio"),
)


class Example(NamedTuple):
    """A pair that a check found: its split, its line from 1, and both sides, cut."""

    split: str
    line: int
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        check: the check.
        counts: {split: number of pairs}.
        share: of all pairs, from 0 to 1.
        first: the first pairs.
        usual: no pair is dropped for it: as requested, or because it is found too often.
    """

    check: Check
    counts: Mapping[str, int]
    share: float
    first: Sequence[Example]
    usual: bool

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def leaves_out(self, split: str) -> bool:
        """Returns whether its pairs of a split are bad; in dev and test only errors are."""
        return not self.usual and (split == TRAIN or self.check.severity == ERROR)

    def as_dict(self) -> dict[str, Any]:
        return {
            "check": self.check.name,
            "severity": self.check.severity,
            "text": self.check.text,
            "count": self.count,
            "share": round(self.share, 6),
            "counts": dict(self.counts),
            "left_out_by_drop_bad_pairs": self.leaves_out(TRAIN),
            "first": [example._asdict() for example in self.first],
        }


def path_of(data_dir: str | os.PathLike, name: str) -> pathlib.Path:
    """Returns the path of the report's JSON for the problem of that name."""
    return pathlib.Path(data_dir, f"datagen.{name}.report.json")


@dataclasses.dataclass(frozen=True)
class Report:
    """The findings on a corpus.

    Attributes:
        pairs: {split: number}.
        languages: those of the two sides, as far as they show.
        findings: of every check, in the order of the table.
        notes: sentences on the corpus as a whole.
        marks: {split: uint32 (N,)}: bit i is set where check i of the table found the pair.
        alone: the splits that stay text, of which no pair is dropped.
    """

    pairs: Mapping[str, int]
    languages: tuple[str, str]
    findings: Sequence[Finding]
    notes: Sequence[str]
    marks: Mapping[str, np.ndarray]
    alone: Collection[str]

    @property
    def errors(self) -> list[Finding]:
        return [each for each in self.findings if each.check.severity == ERROR and each.count]

    def bad_pairs(self, split: str) -> Iterator[tuple[int, list[str]]]:
        """Yields (line from 1, names of the checks) of each pair to drop."""
        if split in self.alone:
            return
        bits = {1 << i: each for i, each in enumerate(self.findings) if each.leaves_out(split)}
        marks = self.marks[split]
        for number in np.flatnonzero(marks & np.uint32(sum(bits))):
            mark = int(marks[number])
            yield int(number) + 1, [each.check.name for bit, each in bits.items() if mark & bit]

    def num_bad_pairs(self) -> int:
        return sum(1 for split in self.pairs for _ in self.bad_pairs(split))

    def texts_of_bad_pairs(self, corpus: Corpus) -> Iterator[BadPair]:
        """Yields the pairs to drop; reads the corpus once more for that."""
        for split, read in corpus.items():
            lines = enumerate(read(), start=1)
            for wanted, reasons in self.bad_pairs(split):
                source, target = next(pair for line, pair in lines if line == wanted)
                yield BadPair(split, wanted, reasons, source, target)

    def write(self, path: str | os.PathLike) -> None:
        """Writes it as JSON."""
        said = {
            "pairs": dict(self.pairs),
            "languages": list(self.languages),
            "bad_pairs": self.num_bad_pairs(),
            "checks": [each.as_dict() for each in self.findings],
            "notes": list(self.notes),
        }
        write_json(path, said, ensure_ascii=False)

    def lines(self) -> Iterator[str]:
        """Yields the lines for a terminal, one for each check that found something."""
        pairs = " and ".join(f"{count:,} {split}" for split, count in self.pairs.items())
        found = [each for each in self.findings if each.count]
        said = f"Checked {pairs} pairs, {' to '.join(name or 'unknown' for name in self.languages)}"
        yield said + (":" if found else ": nothing found.")
        for each in sorted(found, key=lambda each: (each.check.severity != ERROR, -each.count)):
            check, where = each.check, ", ".join(f"{e.split} {e.line}" for e in each.first[:3])
            said = f"{check.severity:7} {check.name:15} {each.count:>9,} {each.share:7.2%}"
            yield f"  {said}  {check.text}: {where}"
        yield from self.notes


def examine(
    corpus: Corpus,
    *,
    keep: Collection[str] = (),
    alone: Collection[str] = (),
) -> Report:
    """Returns the findings of all checks.

    Args:
        corpus: {split: a function that returns all its pairs, the same whenever it is called};
            "train" first.
        keep: the names of checks for which no pair is dropped.
        alone: the splits that stay text, of which no pair is dropped.
    """
    known = models.fit(_blocks(corpus, "reading the corpus", None))
    total = sum(map(len, known.repeated.values()))
    parts = {split: [np.zeros(0, np.uint32)] for split in corpus}
    first: list[list[Example]] = [[] for _ in CHECKS]
    for block in _blocks(corpus, "checking the corpus", total):
        parts[block.split].append(_marks(block, known, first))
    marks = {split: np.concatenate(of) for split, of in parts.items()}
    if known.language.same:
        keep = {*keep, "copy"}  # such as sentences to correct, many of which are right
    findings = []
    for number, check in enumerate(CHECKS):
        bit = np.uint32(1 << number)
        counts = {split: int(np.count_nonzero(of & bit)) for split, of in marks.items()}
        often = counts.get(TRAIN, 0) > OFTEN * max(100, len(marks.get(TRAIN, ())))
        usual = check.name in keep or often and check.severity != ERROR
        share = sum(counts.values()) / max(1, total)
        findings.append(Finding(check, counts, share, first[number], usual))
    notes = [
        f"{each.share:.0%} of the pairs: {each.check.text}. This is usual for this corpus, so "
        "these pairs are kept."
        for each in findings
        if each.usual and each.check.name not in keep
    ]
    if known.language.same:
        notes.append("Both sides seem to be in the same language, so copies are kept.")
    if any(known.moses_escaped):
        notes.append(
            "The text is tokenized and escaped by Moses (&apos; for '). A model trained on it "
            "expects such input and writes such output. To undo this, use Moses's detokenizer.perl."
        )
    notes += [
        f"{share:.2%} of the {side} lines write letters as several characters (Unicode NFD: e and "
        "U+0301 for é). A model treats this é as another letter, and needs more tokens for it. "
        "Convert this text, and all text to translate, to NFC: uconv -x any-nfc."
        for side, share in zip(("source", "target"), known.decomposed, strict=True)
        if share > DECOMPOSED
    ]
    sizes = {split: len(of) for split, of in marks.items()}
    return Report(sizes, known.language.names, findings, notes, marks, alone)


def _blocks(corpus: Corpus, doing: str, total: int | None) -> Iterator[Block]:
    tagged = ((split, pair) for split, read in corpus.items() for pair in read())
    tracked = progress.track(tagged, doing, total, "pairs")
    for split, group in itertools.groupby(tracked, operator.itemgetter(0)):
        yield from blocks(split, map(operator.itemgetter(1), group))


def _marks(block: Block, known: Models, first: list[list[Example]]) -> np.ndarray:
    """Returns the marks of a block's pairs, and adds to the `first` of each check."""
    marks = np.zeros(len(block), np.uint32)
    for number, check in enumerate(CHECKS):
        found = check.find(block, getattr(known, check.model) if check.model else known)
        marks |= found.astype(np.uint32) << np.uint32(number)
        for i in np.flatnonzero(found)[: FIRST - len(first[number])]:
            texts = (_visible(side.texts[i]) for side in block.sides)
            first[number].append(Example(block.split, block.first + int(i) + 1, *texts))
    return marks


def _visible(text: str) -> str:
    """Returns a line to show: cut, with invisible characters as codes."""
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
