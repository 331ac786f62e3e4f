"""Columns and rows of zeros, by which the pipeline pads a batch, are nothing to the step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data import pipeline
from t2t_repro.models.tensorflow_step import differentiate
from tests.models.test_transformer import BATCH, tiny

NO_DROPOUT = {"layer_prepostprocess_dropout": 0.0, "num_hidden_layers": 1}
TRANSFORMERS = [
    {"r_drop_alpha": 2.0},
    {"pos": "emb", "max_length": 9, "norm_type": "noam"},
    {"norm_type": "l2", "self_attention_type": "dot_product_relative", "max_relative_position": 2},
    {"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan"},
    *({"norm_type": name} for name in ("batch", "none")),
]


def gradients(model, batch):
    model.compile(optimizer="sgd")
    keras.utils.set_random_seed(3)
    found = differentiate(model, {name: tf.constant(ids) for name, ids in batch.items()})
    loss, _, values, finite = found
    return float(loss), [np.asarray(tf.convert_to_tensor(v)) for v in values], int(finite)


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=str)
def test_to_a_transformer(changes):
    model, batch = tiny(**NO_DROPOUT, **changes), BATCH
    rows, length = (max(ids.shape[axis] for ids in batch.values()) for axis in (0, 1))
    alike = {n: np.pad(ids, ((0, 0), (0, length - ids.shape[1]))) for n, ids in batch.items()}
    padded = pipeline._padder([0], {(rows + 3, length + 2): 1.0})(alike)
    assert padded["inputs"].shape == padded["targets"].shape == (rows + 3, length + 2)
    loss, expected, _ = gradients(model, batch)
    found, values, finite = gradients(model, padded)
    assert finite == 1 and loss > 0.1
    assert found == pytest.approx(loss, rel=1e-5)
    assert max(np.abs(value).max() for value in expected) > 1e-2
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=2e-6)
