import numpy as np

from t2t_repro.corpora.checks.lexical import Words, ibm_model_1

PAIRS = [([0, 1], [3, 2, 3]), ([1], [2]), ([], [4]), ([2, 0, 0], [])]
NUMBER = 5


def words(sentences):
    counts = np.array([len(s) for s in sentences])
    ids = np.array([i for s in sentences for i in s], "int32")
    return Words(ids, np.repeat(np.arange(len(counts)), counts), counts)


def naive(pairs, iterations):
    """The algorithm as the paper has it, word by word."""
    probability = {(s, t): 1.0 for source, target in pairs for s in source for t in target}
    for _ in range(iterations):
        counts = dict.fromkeys(probability, 0.0)
        for source, target in pairs:
            for t in target:
                total = sum(probability[s, t] for s in source)
                for s in source:
                    counts[s, t] += probability[s, t] / total
        sums = {s: sum(c for (other, _), c in counts.items() if other == s) for s, _ in counts}
        probability = {(s, t): c / sums[s] for (s, t), c in counts.items()}
    return counts, probability


def test_equals_the_naive_one():
    sources, targets = (words(side) for side in zip(*PAIRS, strict=True))
    found = ibm_model_1(sources, targets, len(PAIRS), NUMBER)
    counts, probability = naive(PAIRS, 4)
    keys = [(key // NUMBER, key % NUMBER) for key in found.keys.tolist()]
    assert keys == sorted(counts)
    np.testing.assert_allclose(found.probabilities, [probability[key] for key in keys])
    together = {(0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 2}
    assert dict(zip(keys, found.together.tolist(), strict=True)) == together
