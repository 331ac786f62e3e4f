"""A small lexical model of the corpus itself: which words go with which, and how well pairs fit.

IBM model 1 on a sample, of which the strong entries stay. The fit of a pair is the log of how much
likelier its target's words are beside its source than anywhere.
"""

import dataclasses
import functools
import itertools
from collections import Counter

import numpy as np

from t2t_repro.corpora.checks.block import Block, Side

WORDS = 20_000  # of each side, the most frequent
MOST = 6_000_000  # pairs of words in the sample
_LEARNED = 1000  # characters of a line, whose words are put beside all of the other side's
_LEAST, _TIMES = 0.02, 3.0  # entries that stay: so likely, and so much likelier than anywhere
_UNKNOWN, _END = -1, -2  # instead of a word's number
_ITERATIONS = 4  # of model 1
_ANYWHERE = 0.3  # the probability that a word has nothing to do with the source


@dataclasses.dataclass(frozen=True)
class Words:
    """The known words of N lines, one line behind another.

    Attributes:
        ids: int32 (W,): their numbers.
        lines: int64 (W,): their lines, in order.
        counts: int64 (N,): how many words each line has, with the unknown ones.
    """

    ids: np.ndarray
    lines: np.ndarray
    counts: np.ndarray


@dataclasses.dataclass(frozen=True)
class Counts:
    """What goes with what, for each source word and each target word that stand in one pair.

    Attributes:
        keys: int: source word * number of target words + target word, in order.
        probabilities: float64: how likely the source word becomes the target word.
        together: int64: how often they stand in one pair.
    """

    keys: np.ndarray
    probabilities: np.ndarray
    together: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Lexicon:
    """Which words go with which.

    Attributes:
        words: for each side {word: its number}, and {"\n": _END}.
        begins: int64 (source words + 1,): where the entries of a source word begin in the next two.
        targets: int32: the target words of the entries.
        times: float32: how much likelier they are beside this source word than anywhere.
    """

    words: tuple[dict[str, int], dict[str, int]]
    begins: np.ndarray
    targets: np.ndarray
    times: np.ndarray


def fit(block: Block) -> Lexicon:
    """Returns what the pairs of a sample tell."""
    block = _thinned(block.cut(_LEARNED))
    vocabularies = tuple(
        {
            word: number
            for number, (word, count) in enumerate(Counter(side.tokens).most_common(WORDS + 1))
            if word != "\n" and count > 1
        }
        for side in block.sides
    )
    vocabularies = tuple({w: i for i, w in enumerate(v)} | {"\n": _END} for v in vocabularies)
    sources, targets = (words(side, v) for side, v in zip(block.sides, vocabularies, strict=True))
    number = len(vocabularies[1]) - 1
    counts = ibm_model_1(sources, targets, len(block), number)
    keys, table = counts.keys, counts.probabilities
    frequency = np.bincount(targets.ids, minlength=number) / max(1, len(targets.ids))
    times = table / frequency[keys % number] if len(keys) else table
    kept = (table > _LEAST) & (times > _TIMES) & (counts.together > 1)
    keys, times = keys[kept], times[kept]
    begins = np.searchsorted(keys, np.arange(len(vocabularies[0])) * number)
    entries = (keys % number).astype(np.int32) if number else keys.astype(np.int32)
    both = vocabularies[0], vocabularies[1]
    return Lexicon(both, begins, entries, times.astype(np.float32))


def _thinned(block: Block) -> Block:
    """Returns pairs from all over a block with at most twice MOST pairs of words.

    As many as MOST are expected by the mean lengths; but some long lines, which are long on both
    sides, may have more than all others.
    """
    together = np.prod([_words_of_lines(side) for side in block.sides], axis=0)
    chosen = np.arange(len(block))
    while len(chosen) > 1 and (total := together[chosen].sum()) > 2 * MOST:
        count = max(1, int(len(chosen) * 2 * MOST / total))
        chosen = chosen[((np.arange(count) + 0.5) * len(chosen) / count).astype(int)]
    if len(chosen) == len(block):
        return block
    texts = ([side.texts[i] for i in chosen] for side in block.sides)
    return Block(block.split, block.first, *map(Side, texts))


def _words_of_lines(side: Side) -> np.ndarray:
    """Returns int64 (N,): how many words each line has."""
    ends = [place for place, token in enumerate(side.tokens) if token == "\n"]
    return np.diff([-1, *ends, len(side.tokens)]) - 1


def words(side: Side, vocabulary: dict[str, int]) -> Words:
    """Returns the known words of a side."""
    numbers = map(vocabulary.get, side.tokens, itertools.repeat(_UNKNOWN))
    ids = np.fromiter(numbers, np.int32, len(side.tokens))
    ends = ids == vocabulary["\n"]
    lines = np.cumsum(ends)
    counts = np.bincount(lines[~ends], minlength=len(side.texts))
    known = ids >= 0
    return Words(ids[known], lines[known], counts)


def ibm_model_1(sources: Words, targets: Words, lines: int, number: int) -> Counts:
    """Returns what goes with what in N lines (Brown et al., 1993, section 4.1).

    Args:
        sources: their words on one side.
        targets: those on the other.
        lines: N.
        number: how many target words there are, below which their ids are.
    """
    of_source, of_target = _beside(sources, targets, lines)
    largest = (int(sources.ids.max(initial=0)) + 1) * number
    kind = "int32" if largest < 2**31 else "int64"
    together = of_source.astype(kind) * np.asarray(number, kind) + of_target
    del of_source, of_target  # millions
    keys, inverse = np.unique(together, return_inverse=True)
    del together
    inverse = inverse.astype(np.int32)
    token = _target_tokens(sources, targets, lines).astype(np.int32)
    table: np.ndarray = np.ones(len(keys))
    source = keys // max(1, number)
    for _ in range(_ITERATIONS if len(keys) else 0):
        share = table[inverse]
        share = share / np.bincount(token, share, token[-1] + 1)[token]
        expected = np.bincount(inverse, share, len(keys))
        table = expected / np.maximum(np.bincount(source, expected), 1e-9)[source]
    return Counts(keys, table, np.bincount(inverse, minlength=len(keys)))


def _beside(sources: Words, targets: Words, lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns every source word beside every target word of its line, target word by word."""
    per_line = np.bincount(sources.lines, minlength=lines)
    begins = np.cumsum(per_line) - per_line
    counts = per_line[targets.lines]
    at = np.repeat(begins[targets.lines] - (np.cumsum(counts) - counts), counts)
    return sources.ids[at + np.arange(len(at))], np.repeat(targets.ids, counts)


def _target_tokens(sources: Words, targets: Words, lines: int) -> np.ndarray:
    """Returns the number of the target word that each entry of `_beside` is of."""
    per_line = np.bincount(sources.lines, minlength=lines)
    return np.repeat(np.arange(len(targets.lines)), per_line[targets.lines])


class Fits:
    """How well sources go with targets beside them, for the pairs of a block.

    Args:
        block: N pairs.
        lexicon: what was learned.
    """

    def __init__(self, block: Block, lexicon: Lexicon):
        sources, targets = (
            words(side, known) for side, known in zip(block.sides, lexicon.words, strict=True)
        )
        self._number, self._size = len(lexicon.words[1]), len(block)
        self._targets, self._counts = np.unique(
            targets.lines * self._number + targets.ids, return_counts=True
        )
        # For each source word, the target words that it speaks for, and by how much.
        counts = np.diff(lexicon.begins)[sources.ids]
        ends = np.cumsum(counts)
        at = np.repeat(lexicon.begins[sources.ids] - (ends - counts), counts)
        at += np.arange(len(at))
        lines = np.repeat(sources.lines, counts)
        self._wanted = lines * self._number + lexicon.targets[at]
        self._times = lexicon.times[at] / np.maximum(1, sources.counts)[lines]

    def __call__(self, offset: int = 0) -> np.ndarray:
        """Returns float64 (N,): how well source n goes with target n + offset; 0 outside."""
        if not len(self._targets):
            return np.zeros(self._size)
        wanted = self._wanted + offset * self._number
        at = np.minimum(np.searchsorted(self._targets, wanted), len(self._targets) - 1)
        there = self._targets[at] == wanted
        times = np.bincount(at[there], self._times[there], len(self._targets))
        logs = np.log(_ANYWHERE + (1 - _ANYWHERE) * times) * self._counts
        lines = self._targets // self._number - offset
        inside = (lines >= 0) & (lines < self._size)
        return np.bincount(lines[inside], logs[inside], self._size)


@functools.lru_cache(maxsize=1)
def fits(block: Block, lexicon: Lexicon) -> Fits:
    """Returns the fits of a block, for all checks that ask for them."""
    return Fits(block, lexicon)
