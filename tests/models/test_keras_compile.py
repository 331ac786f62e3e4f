"""Metrics of Keras's: those of ids and logits are taken, others named."""

import keras
import pytest

from t2t_repro.errors import UserError
from t2t_repro.models.keras_compile import check_metrics


def own(labels, logits):
    return keras.ops.mean(logits, -1)


@pytest.mark.parametrize(
    "metric",
    [
        "acc",
        "sparse_top_k_categorical_accuracy",
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True),
        keras.metrics.MeanIoU(7, sparse_y_pred=False),
        keras.metrics.MeanMetricWrapper(own),
        own,
    ],
)
def test_metrics_of_ids_and_logits_are_taken(metric):
    check_metrics(metrics=[metric], weighted_metrics=None)


@pytest.mark.parametrize(
    "metric",
    ["categorical_accuracy", "mae", keras.metrics.Accuracy(), keras.metrics.F1Score()],
)
def test_metrics_of_labels_of_another_form_are_refused(metric):
    message = r'Expected weighted_metrics of ids .*, which is of others. Give "accuracy", "sparse'
    with pytest.raises(UserError, match=message):
        check_metrics(metrics=["accuracy"], weighted_metrics=[metric])
