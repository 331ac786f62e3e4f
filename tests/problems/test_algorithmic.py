import itertools
import sys

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.problem import Split

NAMES = [name for name in registry.list_problems() if name.startswith("algorithmic_")]
algorithmic = sys.modules["t2t_repro.problems.algorithmic"]  # the registry has loaded it


def take(name: str, count: int, split: str = Split.TRAIN) -> list[tuple[list[int], list[int]]]:
    """The first samples as symbols, their ends cut off."""
    samples = registry.get_problem(name).generate_encoded_samples("", "", split)
    taken = [tuple(sample.values()) for sample in itertools.islice(samples, count)]
    assert {side[-1] for sample in taken for side in sample} == {1}
    return [tuple([i - 2 for i in side[:-1]] for side in sample) for sample in taken]


def test_all_names_of_t2t_are_here():
    ours = {"algorithmic_reverse_quickstart"}
    assert set(NAMES) - ours == {
        *(f"algorithmic_{task}_{base}40" for task in ("identity", "reverse", "addition",
          "multiplication") for base in ("binary", "decimal")),
        "algorithmic_identity_vocab95_train20_eval30",
        "algorithmic_shift_decimal40",
        "algorithmic_reverse_binary40_test",
        "algorithmic_reverse_nlplike8k",
        "algorithmic_reverse_nlplike32k",
        "algorithmic_sort_problem",
    }  # fmt: skip


def is_right(name: str, inputs: list[int], targets: list[int]) -> bool:
    if "identity" in name:
        return targets == inputs
    if "shift" in name:
        return targets == [symbol + 10 for symbol in inputs]
    if "reverse" in name:
        return targets == inputs[::-1]
    if "sort" in name:
        return targets == sorted(inputs)
    base = 2 if "binary" in name else 10
    middle = inputs.index(base)
    first, second, result = (
        int("".join(map(str, reversed(digits))), base)
        for digits in (inputs[:middle], inputs[middle + 1 :], targets)
    )
    wanted = first + second if "addition" in name else first * second
    return result == wanted and (targets[-1] != 0 or len(targets) == 1)


@pytest.mark.parametrize("name", NAMES)
def test_samples_follow_their_rule_and_their_vocabulary(name):
    problem = registry.get_problem(name)
    size = problem.targets_vocab_size("")
    for split, longest in ((Split.TRAIN, problem.train_length), (Split.EVAL, problem.dev_length)):
        samples = take(name, 60, split)
        assert all(is_right(name, *sample) for sample in samples)
        assert max(max(i + t) for i, t in samples) + 2 < size
        # The arithmetic problems overrun by the separator, the Gaussian lengths by some deviations.
        assert max(len(i) for i, _ in samples) <= longest * 1.2 + 1
        assert samples == take(name, 60, split)
    assert take(name, 60) != take(name, 60, Split.EVAL)


def test_training_samples_are_those_that_t2t_draws():
    """The rule of T2T's generator, written down a second time over numpy's global generator."""
    np.random.seed(429459)
    expected = []
    for _ in range(20):
        length = np.random.randint(40) + 1
        inputs = [np.random.randint(10) for _ in range(length)]
        expected.append((inputs, list(reversed(inputs))))
    assert take("algorithmic_reverse_decimal40", 20) == expected


def test_nlplike_symbols_are_as_frequent_as_words():
    sources = [inputs for inputs, _ in take("algorithmic_reverse_nlplike8k", 300)]
    counts = np.bincount([symbol for inputs in sources for symbol in inputs])
    assert counts.argmax() == 1 and counts[0] == 0  # as in T2T, the most frequent symbol is 1
    assert 1.9 < counts[1] / counts[2] < 3.2  # 2 ** 1.3 is 2.5
    lengths = [*map(len, sources)]
    assert 34 < np.mean(lengths) < 37 and 5 < np.std(lengths) < 9


def test_seed_decides_the_samples():
    problem = registry.get_problem("algorithmic_sort_problem")
    assert problem.eval_metrics()[-1] == "edit_distance"
    first = next(problem.generate_encoded_samples("", "", Split.TRAIN))
    problem.random_seed = 5
    assert next(problem.generate_encoded_samples("", "", Split.TRAIN)) != first


def test_symbols_are_written_as_numbers():
    encoder = registry.get_problem("algorithmic_shift_decimal40").feature_encoders("")["targets"]
    assert encoder.decode([2, 13, 21]) == "0 11 19"
    assert encoder.encode("0 11 19") == [2, 13, 21]
    assert encoder.vocab_size == 22
    with pytest.raises(UserError, match="0"):
        encoder.encode("3 20")


def test_sizes_and_spaces():
    problem = registry.get_problem("algorithmic_reverse_binary40_test")
    assert problem.num_samples("", Split.TRAIN) == 1000 and problem.num_samples("", "dev") == 100
    assert problem.dataset_splits[0] == {"split": "train", "shards": 1}
    assert (problem.input_space_id, problem.target_space_id) == (10, 11)
