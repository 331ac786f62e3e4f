"""A model small enough to train in a test, with the interface that training needs."""

import keras
import numpy as np
import pytest
from keras import ops


class Cipher(keras.Model):
    """Predicts target t from input t alone; learns a substitution in a few steps."""

    def __init__(self, vocab_size=11, width=12, dropout=0.1):
        super().__init__(name="cipher")
        self.embedding = keras.layers.Embedding(vocab_size, width, name="embedding")
        self.dropout = keras.layers.Dropout(dropout, name="dropout")
        self.softmax = keras.layers.Dense(vocab_size, name="softmax")

    def call(self, batch, training=False):
        hidden = self.dropout(self.embedding(batch["inputs"]), training=training)
        return self.softmax(hidden)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        labels = x["targets"]
        real = ops.cast(labels != 0, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(labels, y_pred, from_logits=True)
        return ops.sum(losses * real) / ops.maximum(ops.sum(real), 1.0)


@pytest.fixture
def make_model():
    """Returns a factory of built, compiled Ciphers; weights and dropout follow from the seed."""

    def make(seed=0, learning_rate=0.05, **kwargs):
        keras.utils.set_random_seed(seed)
        model = Cipher(**kwargs)
        model({"inputs": np.ones((1, 1), "int32"), "targets": np.ones((1, 1), "int32")})
        model.compile(optimizer=keras.optimizers.Adam(learning_rate), jit_compile=False)
        return model

    return make


@pytest.fixture
def make_batches():
    """Returns a factory of endless seeded datasets: targets are the inputs under a substitution."""

    def make(seed=0, vocab_size=11):
        import tensorflow as tf

        def generate():
            random = np.random.default_rng(seed)
            cipher = 2 + np.random.default_rng(7).permutation(vocab_size - 2)
            while True:
                size, length = random.integers(3, 6), random.integers(4, 8)
                inputs = random.integers(2, vocab_size, (size, length)).astype("int32")
                targets = cipher[inputs - 2].astype("int32")
                targets[0, -1] = inputs[0, -1] = 0
                yield {"inputs": inputs, "targets": targets}

        spec = tf.TensorSpec([None, None], tf.int32)
        return tf.data.Dataset.from_generator(
            generate, output_signature={"inputs": spec, "targets": spec}
        )

    return make
