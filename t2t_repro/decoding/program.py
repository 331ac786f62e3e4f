"""A computation with a model, compiled by whatever backend Keras runs on."""

from collections.abc import Callable
from typing import Any

import keras


class Program(keras.Model):
    """A function of the model, compiled: by Keras as it compiles `predict`, or by `tf.function`.

    Subclasses define `call(data)`. Sizes travel as the shapes of arrays, because a compiler may
    need to know them.
    """

    def __init__(self, model: keras.Model):
        # What is computed with the logits keeps its float32 whatever the model's precision.
        super().__init__(autocast=False, dtype="float32", name="decoding")
        self.model = model
        self.built = True
        self._compiled = self.predict_on_batch if static_shapes() else None

    def run(self, data: dict) -> Any:
        """`call`, compiled. TensorFlow's tensors stay where they are between two calls."""
        if self._compiled is None:
            self._compiled = self._compile_for_all_shapes(data)
        return self._compiled(data)

    def _compile_for_all_shapes(self, data: dict) -> Callable[[dict], Any]:
        """One trace for TensorFlow; Keras's predict takes some five until it has met all shapes."""
        import tensorflow as tf

        def any_size(x: Any) -> tf.TensorSpec:
            x = tf.convert_to_tensor(x)
            return tf.TensorSpec([None] * x.shape.rank, x.dtype)

        signature = tf.nest.map_structure(any_size, data)
        return tf.function(self.call, input_signature=[signature])


def static_shapes() -> bool:
    """Whether the backend compiles anew for each shape, so that few of them should be used."""
    return keras.backend.backend() != "tensorflow"


def few_row_counts(rows: int) -> int:
    """How many rows a batch should have in which `rows` are wanted."""
    return 1 << (int(rows) - 1).bit_length() if static_shapes() else int(rows)
