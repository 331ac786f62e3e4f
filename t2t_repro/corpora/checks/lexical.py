"""A small lexical model of the corpus itself, and the stretches in which the targets have slipped.

A lexicon by IBM model 1 on a sample, with only its strong entries. The fit of a pair is the log of
how much likelier its target's words are with its source than anywhere.

Stretches in which the targets stand some lines too early or too late: a hidden Markov model of the
offset (Rabiner, 1989, section III.B): pairs are usually aligned, seldom slip, and then stay so for
a while; the fit of a source with each target near it is observed.
"""

import dataclasses
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
FARTHEST = 3  # lines
_LOW, _NEAR = 2.0, 8  # a fit that is seldom right; so many lines around such are looked at
_SLIPS, _RETURNS = -9.0, -3.0  # logs of the probabilities
_WEIGHT = 0.5  # of a fit: words of a sentence do not come one by one
_SLIPPED = 0.5  # by which a line must be likelier to have slipped than not
_MOST = 12.0  # that a line may speak for an offset: one that is there twice says little


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
    """Translation probabilities of each source word and target word of a pair.

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
    """Returns the lexicon of a sample."""
    block = _thinned(block.cut(_LEARNED))
    ids = _ids(block.sources), _ids(block.targets)
    sources, targets = words(block.sources, ids[0]), words(block.targets, ids[1])
    number = len(ids[1]) - 1
    counts = ibm_model_1(sources, targets, len(block), number)
    keys, table = counts.keys, counts.probabilities
    frequency = np.bincount(targets.ids, minlength=number) / max(1, len(targets.ids))
    times = table / frequency[keys % number] if len(keys) else table
    kept = (table > _LEAST) & (times > _TIMES) & (counts.together > 1)
    keys, times = keys[kept], times[kept]
    begins = np.searchsorted(keys, np.arange(len(ids[0])) * number)
    entries = (keys % max(1, number)).astype(np.int32)
    return Lexicon(ids, begins, entries, times.astype(np.float32))


def _ids(side: Side) -> dict[str, int]:
    """Returns the numbers of the most frequent words of a side, and of "\n"."""
    frequent = Counter(side.tokens).most_common(WORDS + 1)
    known = [word for word, count in frequent if word != "\n" and count > 1]
    return {word: number for number, word in enumerate(known)} | {"\n": _END}


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
    """Returns the translation counts of N lines (Brown et al., 1993, section 4.1).

    Args:
        sources: their words on one side.
        targets: those on the other.
        lines: N.
        number: how many target words there are, below which their ids are.
    """
    of_source, of_target, token = _beside(sources, targets, lines)
    largest = (int(sources.ids.max(initial=0)) + 1) * number
    kind = "int32" if largest < 2**31 else "int64"
    together = of_source.astype(kind) * np.asarray(number, kind) + of_target
    del of_source, of_target  # millions
    keys, inverse = np.unique(together, return_inverse=True)
    del together
    inverse = inverse.astype(np.int32)
    table: np.ndarray = np.ones(len(keys))
    source = keys // max(1, number)
    for _ in range(_ITERATIONS if len(keys) else 0):
        share = table[inverse]
        share = share / np.bincount(token, share, token[-1] + 1)[token]
        expected = np.bincount(inverse, share, len(keys))
        table = expected / np.maximum(np.bincount(source, expected), 1e-9)[source]
    return Counts(keys, table, np.bincount(inverse, minlength=len(keys)))


def _beside(sources: Words, targets: Words, lines: int) -> tuple[np.ndarray, ...]:
    """Returns every source word beside every target word of its line, target word by word, and the
    place of each such target word, int32."""
    per_line = np.bincount(sources.lines, minlength=lines)
    begins = np.cumsum(per_line) - per_line
    counts = per_line[targets.lines]
    at = np.repeat(begins[targets.lines] - (np.cumsum(counts) - counts), counts)
    places = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return sources.ids[at + np.arange(len(at))], np.repeat(targets.ids, counts), places


class Fits:
    """How well sources go with targets beside them, for the pairs of a block.

    Args:
        block: N pairs.
        lexicon: that of the corpus.
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


def slipped(block: Block, lexicon: Lexicon) -> np.ndarray:
    """Returns bool (N,): the pairs of stretches that fit better with their targets shifted."""
    fits = Fits(block, lexicon)
    found = np.zeros(len(block), bool)
    suspect = _around(fits(0) < _LOW)
    if not suspect.any():
        return found
    offsets = np.array([0, *(sign * n for n in range(1, FARTHEST + 1) for sign in (1, -1))])
    fit = np.stack([fits(n) for n in offsets], axis=1)
    lines = np.arange(len(block))[:, None]
    place = (lines + offsets) % len(block)
    fit[place != lines + offsets] = np.nan  # outside
    # A long target with words that nothing explains fits no source: what counts is how much better
    # a target fits than with the sources around it.
    usual = np.take_along_axis(fit, (lines - offsets) % len(block), axis=0)
    seen = fit - np.nanmean(usual, axis=1)[place]
    seen = np.clip(_WEIGHT * (seen - seen[:, :1]) - _SLIPPED * (offsets != 0), -_MOST, _MOST)
    seen = np.nan_to_num(seen)  # what is not seen speaks for nothing
    for start, end in np.flatnonzero(np.diff(np.r_[False, suspect, False])).reshape(-1, 2):
        found[start:end] = _path(seen[start:end]) != 0
    return found


def _around(low: np.ndarray) -> np.ndarray:
    """Returns bool (N,): the lines near three of four in a row that are `low`."""
    some = np.convolve(low, np.ones(4), "same") >= 3
    return np.convolve(some, np.ones(2 * _NEAR + 1), "same") > 0 if some.any() else some


def _path(seen: np.ndarray) -> np.ndarray:
    """Returns int (N,): the likeliest offset of each line (Viterbi); `seen` is (N, offsets)."""
    count, states = seen.shape
    moves = np.full((states, states), _SLIPS + _RETURNS)  # [from, to]
    moves[0, :], moves[:, 0] = _SLIPS, _RETURNS
    np.fill_diagonal(moves, 0.0)
    before = np.empty((count, states), np.int8)
    score = seen[0] + moves[0]
    every = np.arange(states)
    for n in range(1, count):
        best = score[:, None] + moves
        before[n] = best.argmax(axis=0)
        score = best[before[n], every] + seen[n]
    path = np.empty(count, np.int64)
    path[-1] = score.argmax()
    for n in range(count - 1, 0, -1):
        path[n - 1] = before[n, path[n]]
    return path
