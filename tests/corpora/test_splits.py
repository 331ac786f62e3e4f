import random

from t2t_repro.corpora import splits
from t2t_repro.corpora.near_duplicates import Index

WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("ada", "emi", "olu", "ika", "unto")]


def sentence(rng, length=9):
    return " ".join(rng.choice(WORDS) for _ in range(length))


def corpus(count, repeated):
    """Pairs, the last of which nearly repeat earlier ones."""
    rng = random.Random(5)
    pairs = [(sentence(rng), sentence(rng).upper()) for _ in range(count)]
    for number in range(repeated):
        source, target = pairs[number]
        twin = [(source.title() + " 7!", sentence(rng)), (sentence(rng), f"{target}.")][number % 2]
        pairs.append(twin)
    return pairs


def draw(pairs, dev, test, seed=3):
    sample = splits.Sample(dev + test, seed)
    for number, pair in enumerate(pairs):
        sample.add(number, pair)
    return splits.choose(pairs, sample.drawn(), dev, test)


def test_splits_do_not_leak():
    pairs = corpus(700, 300)
    drawn = draw(pairs, 60, 37)
    assert (len(drawn.dev), len(drawn.test), drawn.left_out) == (60, 37, set())
    assert list(drawn.dev) == sorted(drawn.dev) and not drawn.dev.keys() & drawn.test.keys()
    held = {**drawn.dev, **drawn.test}
    assert all(pairs[number] == pair for number, pair in held.items())
    sources, targets = (Index([pair[side] for pair in held.values()]) for side in (0, 1))
    rest = [pair for number, pair in enumerate(pairs) if number not in held]
    assert not any(sources.near(source) or targets.same(target) for source, target in rest)
    assert all(len(sources.near(source)) == 1 for source, _ in held.values())
    assert draw(pairs, 60, 37).dev == drawn.dev
    assert draw(pairs, 60, 37, seed=4).dev != drawn.dev


def test_a_pair_that_is_there_many_times_may_be_drawn_and_is_left_out_of_training():
    """As exports of translation memories have them; near duplicates count, the very pair not."""
    rng = random.Random(6)
    pairs = [(sentence(rng), sentence(rng)) for _ in range(40)] * 13
    drawn = draw(pairs, 9, 4)
    held = [*drawn.dev.values(), *drawn.test.values()]
    assert len(set(held)) == 13 and len(drawn.left_out) == 12 * 13
    away = {*drawn.left_out, *drawn.dev, *drawn.test}
    assert {pair for n, pair in enumerate(pairs) if n not in away}.isdisjoint(held)


def test_every_pair_is_as_likely_and_none_is_empty():
    pairs = [(str(number), "" if number % 5 == 0 else "x") for number in range(4000)]
    drawn = []
    for seed in range(40):
        sample = splits.Sample(0, seed)
        for number, pair in enumerate(pairs):
            sample.add(number, pair)
        numbers = [number for number, _ in sample.drawn()]
        assert len(set(numbers)) == 1000 and all(number % 5 for number in numbers)
        drawn += numbers
    assert abs(sum(drawn) / len(drawn) - 2000) < 30  # 5 standard deviations
    assert [number for number, _ in sample.drawn()] != sorted(numbers)


def test_sizes():
    sizes = [splits.default_dev_size(n) for n in (1, 10, 999, 10_000, 10**6)]
    assert sizes == [1, 1, 49, 500, 2000]
