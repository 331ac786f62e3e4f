"""What the checks found, for a terminal, for programs, and for the file of bad pairs."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_repro.corpora.bad_pairs import BadPair
from t2t_repro.corpora.checks.block import Pair
from t2t_repro.corpora.checks.models import TRAIN
from t2t_repro.corpora.checks.table import CHECKS, ERROR, Check
from t2t_repro.files import write_text_atomic

Corpus = Mapping[str, Callable[[], Iterable[Pair]]]

FIRST = 10  # pairs shown of each check
_LONGEST = 200  # characters shown of a line
OFTEN = 0.3  # of the pairs: what is found that often is how the corpus is, and nothing to leave out


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
        usual: no pair is left out for it: that is asked for, or it is found too often.
    """

    check: Check
    counts: Mapping[str, int]
    share: float
    first: Sequence[Example]
    usual: bool

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    @property
    def severity(self) -> str:
        return self.check.severity

    def leaves_out(self, split: str) -> bool:
        """Whether its pairs of a split are bad; of dev and test, only errors are."""
        held_out = split != TRAIN and self.severity != ERROR
        return not self.usual and not held_out

    def as_dict(self) -> dict[str, Any]:
        return {
            "check": self.check.name,
            "severity": self.severity,
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
    """What is to be said of a corpus.

    Attributes:
        pairs: {split: number}.
        languages: what the two sides seem to be in.
        findings: of every check, in the order of the table.
        notes: sentences on the corpus as a whole.
        marks: {split: uint32 (N,)}: bit i is set where check i of the table found the pair.
        alone: the splits that are text to score, of which no pair is left out.
    """

    pairs: Mapping[str, int]
    languages: tuple[str, str]
    findings: Sequence[Finding]
    notes: Sequence[str]
    marks: Mapping[str, np.ndarray]
    alone: Collection[str]

    @property
    def errors(self) -> list[Finding]:
        return [each for each in self.findings if each.severity == ERROR and each.count]

    def bad_pairs(self, split: str) -> Iterator[tuple[int, list[str]]]:
        """Yields (line from 1, names of the checks) of each pair that is to be left out."""
        bits = {1 << i: each for i, each in enumerate(self.findings) if each.leaves_out(split)}
        none = np.zeros(0, np.uint32)
        marks = none if split in self.alone else self.marks.get(split, none)
        for number in np.flatnonzero(marks & np.uint32(sum(bits))):
            mark = int(marks[number])
            yield int(number) + 1, [each.check.name for bit, each in bits.items() if mark & bit]

    def num_bad_pairs(self) -> int:
        return sum(1 for split in self.pairs for _ in self.bad_pairs(split))

    def texts_of_bad_pairs(self, corpus: Corpus) -> Iterator[BadPair]:
        """Yields the pairs that are to be left out; reads the corpus once more for it."""
        for split, read in corpus.items():
            lines = enumerate(read(), start=1)
            for wanted, reasons in self.bad_pairs(split):
                source, target = next(pair for line, pair in lines if line == wanted)
                yield BadPair(split, wanted, reasons, source, target)

    def write(self, path: str | os.PathLike) -> None:
        """Writes it as JSON."""
        text = json.dumps(self.as_dict(), ensure_ascii=False, indent=1)
        write_text_atomic(path, text + "\n")

    def as_dict(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {
            "pairs": dict(self.pairs),
            "languages": list(self.languages),
            "bad_pairs": self.num_bad_pairs(),
            "checks": [each.as_dict() for each in self.findings],
            "notes": list(self.notes),
        }

    def lines(self) -> Iterator[str]:
        """Yields what is said on a terminal: a line for each check that found something."""
        pairs = " and ".join(f"{count:,} {split}" for split, count in self.pairs.items())
        found = [each for each in self.findings if each.count]
        said = f"Checked {pairs} pairs, {' to '.join(filter(None, self.languages))}"
        yield said + (":" if found else ": nothing found.")
        order = sorted(found, key=lambda each: (each.severity != ERROR, -each.count))
        for each in order:
            where = ", ".join(f"{e.split} {e.line}" for e in each.first[:3])
            yield (
                f"  {each.severity:7} {each.check.name:15} {each.count:>9,} {each.share:7.2%}  "
                f"{each.check.text}: {where}"
            )
        yield from self.notes


def finding(
    number: int, marks: Mapping[str, np.ndarray], first: Sequence[Example], kept: bool
) -> Finding:
    """Returns what check `number` of the table found; `kept`: no pair is left out for it."""
    check, bit = CHECKS[number], np.uint32(1 << number)
    counts = {split: int(np.count_nonzero(of & bit)) for split, of in marks.items()}
    total = max(1, sum(map(len, marks.values())))
    often = counts.get(TRAIN, 0) > OFTEN * max(100, len(marks.get(TRAIN, ())))
    usual = kept or often and check.severity != ERROR
    return Finding(check, counts, sum(counts.values()) / total, tuple(first), usual)


def visible(text: str) -> str:
    """Returns a line to show: cut, and what cannot be seen as its code."""
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
