"""Gradient norms and activations, against a plain tape, the model's own call, and Xiong et al."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import Transformer, get_hparams
from t2t_repro.study import norms
from t2t_repro.training import checkpoints

VOCABULARY = 29
POST, PRE = ("none", "dan"), ("n", "da")


def make(sequences, layers=2, more=""):
    keras.utils.set_random_seed(3)
    before, after = sequences
    text = f"num_hidden_layers={layers},hidden_size=32,filter_size=48,num_heads=2"
    text += f",layer_preprocess_sequence={before},layer_postprocess_sequence={after}{more}"
    hparams = get_hparams("transformer_base_v1", f"{text},layer_prepostprocess_dropout=0")
    sizes = {"inputs_vocab_size": VOCABULARY, "targets_vocab_size": VOCABULARY}
    return Transformer.from_hparams(hparams, **sizes)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(5)
    sizes = {"inputs": (6, 7), "targets": (6, 9)}
    sides = {name: rng.integers(2, VOCABULARY, size) for name, size in sizes.items()}
    sides["inputs"][1, 4:] = 0
    sides["targets"][2, 5:] = 0
    return {name: ids.astype("int32") for name, ids in sides.items()}


def test_gradients_are_those_of_the_loss_by_sublayer(batch):
    model = make(PRE)
    with tf.GradientTape() as tape:
        loss = model.loss_of(batch)[0]
    weights = checkpoints.weights(model)
    gradients = tape.gradient(loss, [weight.value for weight in weights.values()])
    squares = {}
    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
        if len(weight.shape) > 1:
            place = norms.place_of(name)
            square = float(tf.reduce_sum(tf.convert_to_tensor(gradient) ** 2))
            squares[place] = squares.get(place, 0.0) + square
    before = {name: np.array(weight) for name, weight in weights.items()}
    measured_loss, measured = norms.GradientNorms(model).measure([batch, batch])
    assert measured_loss == pytest.approx(float(loss), rel=1e-6)
    assert measured == pytest.approx({k: v**0.5 for k, v in squares.items()}, rel=1e-4)
    assert len(measured) == 1 + 2 * 2 + 2 * 3
    for name, weight in weights.items():
        np.testing.assert_array_equal(np.array(weight), before[name])


@pytest.mark.parametrize("sequences, one_way", [(POST, False), (PRE, True)])
def test_activations_are_those_on_the_way_to_the_models_own_logits(batch, sequences, one_way):
    model = make(sequences, more=f",unidirectional_encoder={one_way}")
    scales, output = norms.walk(model, batch)
    np.testing.assert_allclose(model.softmax.logits(output), model(batch), atol=1e-6)
    assert list(scales)[:2] == ["encoder/layer_0/self_attention", "encoder/layer_0/ffn"]
    if sequences == POST:  # a norm of scale 1 and bias 0 is the last thing in each sublayer
        assert list(scales.values()) == pytest.approx([1.0] * len(scales), rel=1e-3)
    else:  # sums grow
        assert scales["decoder/layer_1/ffn"] > scales["decoder/layer_0/ffn"] > 1.0
