"""Every kernel that is written by hand is its plain form, and so is every gradient of it."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.layers import cross_entropy, kernels  # noqa: F401, FORMS has theirs

D, M, V = 7, 5, 11


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


LABELS = np.array([3, 0, 10, 1, 3], "int32")
INPUTS = {  # a kernel's name: what is differentiated by, and the other arguments
    "product": [
        ((normal(2, 3, depth), normal(depth, 13)), ()) for depth in (D, kernels._NARROW + 1)
    ],
    "flat_product": [((normal(2, 3, D), normal(D, 13)), ()), ((normal(M, D), normal(D, 13)), ())],
    "sum_over_rows": [((normal(2, 3, D),), ())],
    "layer_norm": [((normal(2, 3, D), normal(D) + 2, normal(D + 2)[:D]), (1e-6,))],
    "divergence_of_rows": [((normal(2, M, V) * 3, normal(2, M, V + 1)[..., 1:]), ())],
    "cross_entropy": [((normal(M, V) * 3,), (LABELS, s)) for s in (0.0, 0.2)],
    "fused_cross_entropy": [((normal(M, V) * 3,), (LABELS, s)) for s in (0.0, 0.2)],
    "linear_cross_entropy": [  # 50: the probabilities of labels underflow
        ((normal(M, D) * scale, normal(V, D)), (LABELS, s)) for s in (0.0, 0.2) for scale in (1, 50)
    ],
}


def test_no_kernel_is_left_out():
    # see test_dropout.py, and below
    assert kernels.FORMS.keys() == INPUTS.keys() | {"dropout", "longer", "gather_beams", "write"}


@pytest.mark.parametrize(
    "name, inputs", [(name, inputs) for name, several in INPUTS.items() for inputs in several]
)
def test_values_and_gradients_are_those_of_the_plain_form(name, inputs):
    by, others = [tf.constant(x) for x in inputs[0]], inputs[1]
    results = []
    for form in kernels.FORMS[name]:
        with tf.GradientTape() as tape:
            tape.watch(by)
            y = form(*by, *others)
            loss = tf.reduce_sum(y * normal(*y.shape))
        results.append([y, *tape.gradient(loss, by)])
    for expected, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_is_written_at_its_step_and_nowhere_else(dtype):
    cache = tf.cast(normal(2, 3, 4 * 5, 7), dtype)  # 5 steps of 4 beams
    values = tf.cast(normal(2, 3, 4, 7) + 9, dtype)
    plain, kernel = kernels.FORMS["write"]
    expected = plain(cache, values, 2)
    got = tf.function(kernel)(tf.identity(cache), values, tf.constant(2))
    np.testing.assert_array_equal(tf.cast(got, "float32"), tf.cast(expected, "float32"))
    assert (tf.cast(got, "float32").numpy()[:, :, 8:12] > 4).all()


def test_a_longer_cache_is_the_cache_and_zeros():
    cache = normal(2, 3, 5, 7)
    for form in kernels.FORMS["longer"]:
        got = np.asarray(tf.function(form)(cache, tf.constant(4)))
        np.testing.assert_array_equal(got[:, :, :5], cache)
        assert got.shape == (2, 3, 9, 7) and not got[:, :, 5:].any()


@pytest.mark.parametrize("shape", [(None, None, D), (None, 3, D), (None, D)])
def test_a_flat_product_of_sizes_that_come_later_is_the_product(shape):
    kernel, spec = normal(D, 13), tf.TensorSpec((D, 13))
    form = tf.function(kernels.flat_product, input_signature=[tf.TensorSpec(shape), spec])
    for x in (normal(4, 3, D), normal(0, 0, D), normal(0, 3, D), normal(2, D)):
        if tf.TensorShape(shape).is_compatible_with(x.shape):
            np.testing.assert_allclose(form(x, kernel), x @ kernel, atol=1e-5, strict=True)


def test_a_flat_product_of_no_tokens_has_the_rows_of_its_batch():
    assert kernels.flat_product(tf.zeros((2, 0, D)), normal(D, 13)).shape == (2, 0, 13)


@pytest.mark.parametrize("kind", ["float32", "int32", "bool"])
def test_what_is_picked_is_picked_sentence_by_sentence(kind):
    index = np.array([[4, 0], [1, 1], [2, 3]], "int32")
    x = (normal(3, 5, 2) * 2).astype(kind)
    for form in kernels.FORMS["gather_beams"]:
        got = tf.function(form)(x, index)
        np.testing.assert_array_equal(got, x[np.arange(3)[:, None], index])
