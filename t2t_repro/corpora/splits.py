"""Draws dev and test from a corpus, without near-duplicates in training.

More pairs are drawn than needed and compared with the corpus once; those without near-duplicates
are taken, so that training loses nothing. If these are too few, those with the fewest
near-duplicates follow, and the duplicates leave training. Memory holds only the drawn pairs.
"""

import dataclasses
import heapq
import random
from collections.abc import Iterable, Sequence

from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.near_duplicates import Index

DEV_SHARE, MOST_DEV = 0.05, 2000
_LEAST_TRAIN = 0.5  # of the pairs, at least so much stays
MANY = 10  # near duplicates, of which a pair has too many to be taken


class Sample:
    """Pairs drawn at random from a stream, each as likely as any other.

    Args:
        wanted: how many dev and test need together.
        seed: decides which.
    """

    def __init__(self, wanted: int, seed: int):
        self._capacity = 2 * wanted + 1000
        self._draw = random.Random(f"splits {seed}").random
        self._drawn: list[tuple[float, int, Pair]] = []

    def add(self, number: int, pair: Pair) -> None:
        """Passes the next pair; one with an empty side is never drawn."""
        rank = -self._draw()
        if len(self._drawn) < self._capacity:
            if all(pair):
                heapq.heappush(self._drawn, (rank, number, pair))
        elif rank > self._drawn[0][0] and all(pair):
            heapq.heapreplace(self._drawn, (rank, number, pair))

    def drawn(self) -> list[tuple[int, Pair]]:
        """Returns (number, pair), in random order."""
        return [(number, pair) for _, number, pair in sorted(self._drawn, reverse=True)]


@dataclasses.dataclass
class Drawn:
    """Which pairs go where, by number; all others are training's."""

    dev: dict[int, Pair]
    test: dict[int, Pair]
    left_out: set[int]


def default_dev_size(count: int) -> int:
    """Returns how many pairs of a corpus of `count` dev gets."""
    return max(1, min(MOST_DEV, int(count * DEV_SHARE)))


def apart(candidates: list[tuple[int, Pair]], held_out: Sequence[Pair]) -> list[tuple[int, Pair]]:
    """Returns those of the candidates that do not nearly repeat in a split that there is."""
    sources = Index(source for source, _ in held_out)
    targets = Index(target for _, target in held_out)
    return [
        (number, pair)
        for number, pair in candidates
        if not (sources.near(pair[0]) or targets.same(pair[1]))
    ]


def choose(
    corpus: Iterable[Pair], candidates: list[tuple[int, Pair]], dev: int, test: int
) -> Drawn:
    """Returns the splits; they may be smaller than asked for, where the corpus repeats itself.

    What they take, and what is left out for them, is never more than half of the pairs.

    Args:
        corpus: all pairs, in order.
        candidates: (number, pair) of those that were drawn.
        dev: how many pairs dev is to have.
        test: the same for test.
    """
    sources = Index(pair[0] for _, pair in candidates)
    targets = Index(pair[1] for _, pair in candidates)
    repeats: list[list[int]] = [[] for _ in candidates]
    same: dict[Pair, list[int]] = {pair: [] for _, pair in candidates}  # however often
    number = -1
    for number, (source, target) in enumerate(corpus):
        if (source, target) in same:
            same[source, target].append(number)
        for place in {*sources.near(source), *targets.same(target)}:
            pair = candidates[place][1]
            if pair == (source, target):
                continue
            repeats[place].append(number)
            if len(repeats[place]) > MANY:  # it is not drawn; what is much repeated costs time
                for index, text in zip((sources, targets), pair, strict=True):
                    index.drop(place, text)
    most = int((number + 1) * (1 - _LEAST_TRAIN))
    chosen: dict[int, Pair] = {}
    left_out: set[int] = set()
    places = [place for place, near in enumerate(repeats) if len(near) <= MANY]
    for place in sorted(places, key=lambda p: len(repeats[p]) + len(same[candidates[p][1]])):
        number, pair = candidates[place]
        if len(chosen) == dev + test:
            break
        near = {*repeats[place], *same[pair]} - {number}
        if number not in left_out and chosen.keys().isdisjoint(near):
            more = near - left_out
            if len(chosen) + 1 + len(left_out) + len(more) > most:
                break
            chosen[number] = pair
            left_out |= more
    order = list(chosen)
    random.Random(len(order)).shuffle(order)  # pairs that stand alone come first
    tests = min(test, len(order) * test // max(dev + test, 1))
    parts = sorted(order[tests:]), sorted(order[:tests])
    dev_part, test_part = ({number: chosen[number] for number in part} for part in parts)
    return Drawn(dev_part, test_part, left_out)
