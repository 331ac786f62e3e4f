import json
import pathlib
import random

import numpy as np
import pytest
from keras import ops

from t2t_repro.training import metrics

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"


def statistics(logits, labels):
    computed = metrics.token_statistics(
        ops.convert_to_tensor(logits), ops.convert_to_tensor(labels)
    )
    return {name: ops.convert_to_numpy(value) for name, value in computed.items()}


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "metrics_input.npz") as arrays:
        logits, labels = arrays["logits"], arrays["labels"].astype("int32")
    return logits, labels, json.loads((GOLDEN / "metrics.json").read_text())


@pytest.mark.parametrize("name", metrics.METRICS)
def test_each_metric_equals_tensor2tensor(golden, name):
    logits, labels, expected = golden
    assert set(expected) == set(metrics.METRICS)
    accumulator = metrics.Accumulator([name])
    accumulator.update(statistics(logits, labels), labels)
    assert accumulator.result()[name] == pytest.approx(expected[name], abs=1e-5)


def test_token_metrics_weigh_tokens_and_ngram_metrics_weigh_batches(golden):
    logits, labels, _ = golden
    names = list(metrics.METRICS)
    whole, split = metrics.Accumulator(names), metrics.Accumulator(names)
    whole.update(statistics(logits, labels), labels)
    parts = [(logits[:2], labels[:2]), (logits[2:], labels[2:])]
    alone = []
    for part in parts:
        split.update(statistics(*part), part[1])
        one = metrics.Accumulator(names)
        one.update(statistics(*part), part[1])
        alone.append(one.result())
    for name in ("accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"):
        assert split.result()[name] == pytest.approx(whole.result()[name])
    assert split.result()["edit_distance"] == pytest.approx(whole.result()["edit_distance"])
    for name in ("approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore", "loss"):
        assert split.result()[name] == pytest.approx((alone[0][name] + alone[1][name]) / 2)


def test_of_equal_logits_the_lower_ids_are_the_likelier():
    """As tf.nn.top_k has it, by which T2T's padded_accuracy_topk goes; nan is never right."""
    labels = np.array([[4, 5, 7, 1]], "int32")
    logits = np.zeros((1, 4, 9), "float32")
    logits[0, 2, :4] = 2  # four are above 7, and three of the zeros lie before it
    logits[0, 3] = np.nan
    np.testing.assert_array_equal(statistics(logits, labels)["in_top5"], [[1, 0, 0, 0]])


def test_a_perfect_prediction():
    labels = np.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]], "int32")
    perfect = metrics.Accumulator(list(metrics.METRICS))
    perfect.update(statistics(100.0 * np.eye(9, dtype="float32")[labels], labels), labels)
    result = perfect.result()
    for name in ("neg_log_perplexity", "edit_distance", "loss"):
        assert result.pop(name) == pytest.approx(0, abs=1e-6)
    assert result == pytest.approx(dict.fromkeys(result, 1.0), abs=1e-6)


def test_batches_of_padding_alone_count_nothing():
    labels = np.zeros((2, 3), "int32")
    empty = metrics.Accumulator(["accuracy", "edit_distance", "neg_log_perplexity"])
    empty.update(statistics(np.zeros((2, 3, 7), "float32"), labels), labels)
    assert set(empty.result().values()) == {0.0}


def test_bleu_of_short_sentences_without_any_match():
    labels = np.array([[3, 4]], "int32")
    wrong = {"predictions": np.array([[5, 6]], "int32")}
    # Unigrams 1/2 of 2 and bigrams 1/4 of 1; the higher orders have no n-grams and count as 1.
    expected = (0.25 * 0.25) ** 0.25
    assert metrics.approx_bleu_score(wrong, labels)[0] == pytest.approx(expected)


def test_sequence_algorithms_equal_the_plain_recurrences():
    def lcs(a, b):
        if not a or not b:
            return 0
        if a[-1] == b[-1]:
            return lcs(a[:-1], b[:-1]) + 1
        return max(lcs(a[:-1], b), lcs(a, b[:-1]))

    def edits(a, b):
        if not a or not b:
            return len(a) + len(b)
        replaced = edits(a[:-1], b[:-1]) + (a[-1] != b[-1])
        return min(replaced, edits(a[:-1], b) + 1, edits(a, b[:-1]) + 1)

    generator = random.Random(5)
    for _ in range(40):
        a, b = ([generator.randrange(3) for _ in range(generator.randrange(7))] for _ in "ab")
        assert metrics.longest_common_subsequence(a, b) == lcs(a, b)
        assert metrics.levenshtein(a, b) == edits(a, b)
