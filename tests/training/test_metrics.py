import json
import pathlib
import random

import numpy as np
import pytest
from keras import ops

from t2t_repro.training import metrics

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"
EXPECTED = json.loads((GOLDEN / "metrics.json").read_text())  # {metric of tensor2tensor: value}


def statistics(logits, labels):
    computed = metrics.token_statistics(
        ops.convert_to_tensor(logits), ops.convert_to_tensor(labels)
    )
    return {name: ops.convert_to_numpy(value) for name, value in computed.items()}


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "metrics_input.npz") as arrays:
        logits, labels = arrays["logits"], arrays["labels"].astype("int32")
    return logits, labels


@pytest.mark.parametrize("name", EXPECTED)
def test_each_metric_equals_tensor2tensor(golden, name):
    assert accumulated(golden)[name] == pytest.approx(EXPECTED[name], abs=1e-5)


def accumulated(*batches):
    accumulator = metrics.Accumulator(list(metrics.METRICS))
    for logits, labels in batches:
        accumulator.update(statistics(logits, labels), labels)
    return accumulator.result()


def test_token_metrics_weigh_tokens_and_ngram_metrics_weigh_batches(golden):
    logits, labels = golden
    parts = (logits[:2], labels[:2]), (logits[2:], labels[2:])
    whole, split = accumulated((logits, labels)), accumulated(*parts)
    one, two = map(accumulated, parts)
    weigh_batches = ("approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore", "loss")
    for name in (*EXPECTED, "loss"):
        expected = (one[name] + two[name]) / 2 if name in weigh_batches else whole[name]
        assert split[name] == pytest.approx(expected), name


def test_of_equal_logits_the_lower_ids_are_the_likelier():
    """As tf.nn.top_k has it, by which T2T's padded_accuracy_topk goes; nan is never right."""
    labels = np.array([[4, 5, 7, 1]], "int32")
    logits = np.zeros((1, 4, 9), "float32")
    logits[0, 2, :4] = 2  # four are above 7, and three of the zeros lie before it
    logits[0, 3] = np.nan
    np.testing.assert_array_equal(statistics(logits, labels)["in_top5"], [[1, 0, 0, 0]])


def test_batches_of_padding_alone_count_nothing():
    labels = np.zeros((2, 3), "int32")
    found = accumulated((np.zeros((2, 3, 7), "float32"), labels))
    for name in ("accuracy", "edit_distance", "neg_log_perplexity"):
        assert found[name] == 0.0


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
