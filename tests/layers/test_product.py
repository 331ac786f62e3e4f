"""The product of training, whose gradients are written out, against TensorFlow's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.layers import product
from t2t_repro.layers.prepostprocess import LayerNorm


@pytest.mark.parametrize(("depth", "units"), [(7, 13), (product._NARROW + 1, 11)])
def test_the_gradients_are_those_of_the_product(depth, units):
    rng = np.random.default_rng(depth)
    x = tf.constant(rng.normal(size=(3, 5, depth)).astype("float32"))
    kernel = tf.constant(rng.normal(size=(depth, units)).astype("float32"))
    weight = tf.constant(rng.normal(size=(3, 5, units)).astype("float32"))
    results = {}
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            y = product.product(x, kernel, training)
            loss = tf.reduce_sum(weight * y)
        results[training] = (y, *tape.gradient(loss, [x, kernel]))
    for ours, theirs in zip(results[True], results[False], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_dense_trains_as_keras_dense():
    rng = np.random.default_rng(3)
    x = tf.constant(rng.normal(size=(2, 3, 7)).astype("float32"))
    ours = product.Dense(5, activation="relu")
    theirs = keras.layers.Dense(5, activation="relu")
    for layer in (ours, theirs):
        layer.build(x.shape)
    ours.bias.assign(rng.normal(size=5))
    theirs.set_weights(ours.get_weights())
    gradients = []
    for layer in (ours, theirs):
        with tf.GradientTape() as tape:
            y = layer(x, training=True)
            loss = tf.reduce_sum(y * y)
        gradients.append([y, *tape.gradient(loss, layer.trainable_variables)])
    for mine, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_sum_over_rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 5, 7)).astype("float32")
    np.testing.assert_allclose(product.sum_over_rows(tf.constant(x)), x.sum((0, 1)), atol=1e-5)


def test_layer_normalization_trains_as_it_evaluates():
    rng = np.random.default_rng(4)
    x = tf.constant(rng.normal(size=(3, 5, 7)).astype("float32"))
    weight = tf.constant(rng.normal(size=(3, 5, 7)).astype("float32"))
    norm = LayerNorm()
    norm.build(x.shape)
    norm.set_weights([rng.normal(size=7), rng.normal(size=7)])
    results = []
    for training in (True, False):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = norm(x, training=training)
            loss = tf.reduce_sum(weight * y)
        results.append([y, *tape.gradient(loss, [x, *norm.trainable_variables])])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
