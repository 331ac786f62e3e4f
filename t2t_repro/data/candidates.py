"""Which target tokens go with each source token, counted in the pairs that a model is trained on.

IBM model 1 of a block of pairs after another; what it expects adds up. The end of a source stands
for none of its words, so its candidates are what sentences have besides.
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from t2t_repro import progress
from t2t_repro.corpora import ibm_model_1
from t2t_repro.corpora.ibm_model_1 import Words
from t2t_repro.data import index, packing, pipeline, records
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.shortlist import Shortlist, names

Example = dict[str, list[int]]

PAIRS = 1_000_000  # of sentences that are counted, the first
_BLOCK = 4_000_000  # pairs of tokens in a block, which takes some 300 MB
_LONGEST = 1000  # tokens of a sentence that are counted, the first
_LEAST = 0.01  # what is expected less often in a block does not count


class Coverage(NamedTuple):
    """What a shortlist has of sentences and their translations.

    share: of the target tokens, how many are candidates.
    candidates: how many a sentence has, in the mean.
    tokens: how many target tokens there were.
    """

    share: float
    candidates: float
    tokens: int

    def __str__(self) -> str:
        return (
            f"{100 * self.share:.2f}% of {self.tokens:,} tokens of dev are among the candidates of "
            f"their sentences, {self.candidates:,.0f} in the mean"
        )


def training_pairs(problem: Problem, data_dir: str | os.PathLike) -> Iterator[Example]:
    """Returns the first pairs that a model is trained on; it shows how far they are read.

    Raises:
        UserError: if files or the vocabulary are missing or broken.
    """
    total = None  # of packed pairs, several in a record
    if not problem.packed_length:
        files = records.find_shards(problem, Split.TRAIN, data_dir)
        total = min(PAIRS, len(index.read(files, packing.stored(problem))))
    pairs = pipeline.read_split(problem, Split.TRAIN, data_dir)
    first = itertools.islice(pairs, PAIRS)
    return progress.track(first, "Counting what goes with what", total, "pairs")


def shortlist_of(
    examples: Iterable[Example], encoders: dict[str, Any], *, best: int, frequent: int
) -> Shortlist:
    """Returns the candidates that pairs speak for.

    Args:
        examples: {"inputs": ids, "targets": ids}, each ending with 1.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        best: how many each source token has, those that it most often became; and what has its own
            name, for names and numbers that are copied.
        frequent: how many of the most frequent target tokens are always candidates.

    Raises:
        UserError: if there is no pair.
    """
    both = names(encoders)
    number = len(both[1])
    keys: np.ndarray = np.zeros(0, "int64")
    expected: np.ndarray = np.zeros(0)
    frequency = np.zeros(number, "int64")
    for sources, targets in _blocks(examples):
        frequency += np.bincount(targets.ids, minlength=number)
        found = ibm_model_1.count(sources, targets, len(sources.counts), number)
        kept = found.expected > _LEAST
        more = np.concatenate([keys, found.keys[kept]]), [expected, found.expected[kept]]
        keys, inverse = np.unique(more[0], return_inverse=True)
        expected = np.bincount(inverse, np.concatenate(more[1]), len(keys))
    if not frequency.any():
        raise UserError(
            "Expected pairs of sentences to count what goes with what. Received: none. Make the "
            "data by t2t-datagen."
        )
    known = {name: i for i, name in enumerate(both[1])}
    candidates = [[known[name]] if name in known else [] for name in both[0]]
    source = keys // number
    order = np.lexsort((-expected, source))
    rank = np.arange(len(order)) - np.searchsorted(source[order], source[order])
    for key in keys[order[rank < best]].tolist():
        candidates[key // number].append(key % number)
    most = np.argsort(-frequency, kind="stable")[:frequent]
    return Shortlist.of(candidates, most[frequency[most] > 0].tolist(), number)


def coverage(shortlist: Shortlist, examples: Iterable[Example]) -> Coverage:
    """Returns what a shortlist has of examples."""
    there = tokens = candidates = count = 0
    for count, example in enumerate(examples, 1):  # noqa: B007
        allowed = shortlist.among(np.array([example["inputs"]], "int32"))[0]
        there += int(allowed[example["targets"]].sum())
        tokens += len(example["targets"])
        candidates += int(allowed.sum())
    return Coverage(there / max(tokens, 1), candidates / max(count, 1), tokens)


def _blocks(examples: Iterable[Example]) -> Iterator[tuple[Words, Words]]:
    """Yields the two sides of so many pairs, the targets without their ends."""
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    size = 0
    for example in examples:
        sources.append(example["inputs"][:_LONGEST])
        targets.append([i for i in example["targets"][:_LONGEST] if i != EOS_ID])
        size += len(sources[-1]) * len(targets[-1])
        if size >= _BLOCK:
            yield _words(sources), _words(targets)
            sources, targets, size = [], [], 0
    if sources:
        yield _words(sources), _words(targets)


def _words(sentences: list[list[int]]) -> Words:
    counts = np.array([len(ids) for ids in sentences])
    ids = np.array([i for ids in sentences for i in ids], "int32")
    return Words(ids, np.repeat(np.arange(len(counts)), counts), counts)
