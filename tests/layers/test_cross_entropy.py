"""The loss against its definition."""

import numpy as np
import pytest

from t2t_repro.layers.cross_entropy import mean_over_global_batch, padded_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_against_the_smoothed_target_written_out(smoothing):
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(2, 3, 7)).astype("float32") * 3
    labels = np.array([[4, 1, 0], [2, 6, 1]], "int32")
    total, weight = padded_cross_entropy(logits, labels, smoothing)
    expected = 0.0
    for row, label in zip(logits.reshape(-1, 7), labels.ravel(), strict=True):
        target = np.full(7, smoothing / 6)
        target[label] = 1 - smoothing
        log_p = row - np.log(np.exp(row).sum())
        entropy = -np.sum(target[target > 0] * np.log(target[target > 0]))
        expected += (label != 0) * (-np.sum(target * log_p) - entropy)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert float(weight) == 5


def test_a_batch_of_padding_has_loss_zero():
    total, weight = padded_cross_entropy(np.ones((1, 2, 7)), np.zeros((1, 2), "int32"))
    assert float(mean_over_global_batch(total, weight)) == 0
