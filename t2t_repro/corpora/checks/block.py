"""Consecutive pairs of a split, and values that several checks share, computed once."""

import dataclasses
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np

from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.near_duplicates import UNSEEN
from t2t_repro.text.tokenizer import LETTERS, SIGNS

PAIRS = 4096  # in a block

# Scripts that put no space between words count by characters; alphabets among them, whose letters
# say nothing alone, by each three in a row.
UNSPACED = re.compile(f"[{LETTERS}]")
_TOKEN = re.compile(rf"[{SIGNS}]|[^\W_]+|\n")
_TOKEN_OR_THREE = re.compile(rf"([{SIGNS}]|[^\W_{LETTERS}]+|\n)|(?=([{LETTERS}]{{3}}))[{LETTERS}]")


class Side:
    """One side of a block.

    Args:
        texts: N lines.
    """

    def __init__(self, texts: list[str]):
        self.texts = texts

    @functools.cached_property
    def joined(self) -> str:
        """All lines, with one "\\n" between two of them, and nowhere else."""
        joined = "\n".join(self.texts)
        if joined.count("\n") != len(self.texts) - 1:
            joined = "\n".join(text.replace("\n", " ") for text in self.texts)
        return joined

    @functools.cached_property
    def lower(self) -> str:
        """The same in lower case."""
        return self.joined.lower()

    @functools.cached_property
    def spelled(self) -> list[str]:
        """The lines in lower case, with one form of each character (Unicode's NFKC), without quotes
        and invisible characters, so that equal lines are spelled alike."""
        text = self.lower
        for character in UNSEEN + "'\"‘’‚“”„":
            text = text.replace(character, "")
        return unicodedata.normalize("NFKC", text).split("\n")

    @functools.cached_property
    def decomposed(self) -> int:
        """How many lines have letters that are written as several characters."""
        return sum(not unicodedata.is_normalized("NFC", text) for text in self.texts)

    @functools.cached_property
    def is_ascii(self) -> bool:
        return self.joined.isascii()

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int64 (N,): characters of each line."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @functools.cached_property
    def codes(self) -> np.ndarray:
        """uint32: the code points of the lines in lower case, "\\n" before, between and behind."""
        text = f"\n{self.lower}\n"
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """int64 (N,): where in `codes` the "\\n" before each line stands."""
        return np.flatnonzero(self.codes == 10)[:-1]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Returns (N,): for each line the sum of `values`, of which there is one for each code."""
        return np.add.reduceat(values, self.starts)

    @functools.cached_property
    def tokens(self) -> list[str]:
        """The words of all lines in lower case, "\\n" between two lines."""
        if not UNSPACED.search(self.lower):  # most text, and twice as fast
            return _TOKEN.findall(self.lower)
        return [token or three for token, three in _TOKEN_OR_THREE.findall(self.lower)]

    def having(self, pattern: re.Pattern[str]) -> np.ndarray:
        """Returns bool (N,): the lines in which `pattern` is found."""
        found = np.zeros(len(self.texts), bool)
        if pattern.search(self.joined):
            found[:] = [pattern.search(text) is not None for text in self.texts]
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Consecutive pairs.

    Attributes:
        split: theirs.
        first: the number of the first, from 0.
        sources, targets: the N lines of each side.
    """

    split: str
    first: int
    sources: Side
    targets: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.sources, self.targets

    def __len__(self) -> int:
        return len(self.sources.texts)

    def cut(self, characters: int) -> "Block":
        """Returns the pairs with at most `characters` of each line."""
        if all(side.lengths.max(initial=0) <= characters for side in self.sides):
            return self
        sources, targets = (Side([text[:characters] for text in side.texts]) for side in self.sides)
        return dataclasses.replace(self, sources=sources, targets=targets)


def blocks(split: str, pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yields the pairs of a split in blocks of PAIRS."""
    pairs, first = iter(pairs), 0
    while some := list(itertools.islice(pairs, PAIRS)):
        sources, targets = zip(*some, strict=True)
        yield Block(split, first, Side(list(sources)), Side(list(targets)))
        first += len(some)
