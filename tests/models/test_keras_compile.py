"""Metrics of Keras's: those of ids and logits are taken, others named."""

import functools

import keras
import pytest

from t2t_repro.errors import UserError
from t2t_repro.models.keras_compile import check_loss, check_metrics


def own(labels, logits, from_logits=True):
    return keras.ops.mean(logits, -1)


CROSSENTROPY = keras.losses.sparse_categorical_crossentropy


@pytest.mark.parametrize(
    "metric",
    [
        "acc",
        "sparse_top_k_categorical_accuracy",
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True),
        keras.metrics.MeanIoU(7, sparse_y_pred=False),
        keras.metrics.MeanMetricWrapper(own),
        own,
        functools.partial(CROSSENTROPY, from_logits=True),
    ],
)
def test_metrics_of_ids_and_logits_are_taken(metric):
    check_metrics(metrics=[metric], weighted_metrics=None)


@pytest.mark.parametrize(
    "metric",
    [
        *("categorical_accuracy", "mae", keras.metrics.Accuracy(), keras.metrics.F1Score()),
        *(keras.metrics.MeanIoU(7), keras.losses.MeanSquaredError()),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ],
)
def test_metrics_of_labels_of_another_form_are_refused(metric):
    message = r'Expected weighted_metrics of ids .*, which is of others. Give "accuracy", "sparse'
    with pytest.raises(UserError, match=message):
        check_metrics(metrics=["accuracy"], weighted_metrics=[metric])


def test_a_loss_may_be_of_logits_by_its_arguments():
    check_loss(functools.partial(CROSSENTROPY, from_logits=True), None)
    check_loss(own, None)
    with pytest.raises(UserError):
        check_loss(functools.partial(CROSSENTROPY, ignore_class=0), None)
