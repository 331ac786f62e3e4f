"""A computation with a model, compiled by Keras's backend."""

import functools
import threading
from collections.abc import Callable, Collection
from typing import Any

import keras

from t2t_repro.decoding.search import searches_for
from t2t_repro.models import copies
from t2t_repro.models.copies import DEFAULT_DEVICE
from t2t_repro.process import available_cores

_COMPILING = threading.Lock()  # several threads may run one program


class Program(keras.Model):
    """A function of the model, compiled by `jax.jit` or `tf.function`.

    Subclasses define `call(data)`. Sizes are passed as shapes of arrays, because a compiler may
    need to know them. `WHOLE` names what of the data has no row for each sentence.
    """

    WHOLE: Collection[str] = ()

    def __init__(self, model: keras.Model):
        # Computations with the logits stay float32 whatever the model's precision.
        super().__init__(autocast=False, dtype="float32", name="decoding")
        self.model = model
        self.built = True
        self._compiled: dict[str, Callable[[dict], Any]] = {}

    def run(self, data: dict, device: str = DEFAULT_DEVICE) -> Any:
        """Returns what `call` does, compiled. The backend's arrays stay on their device.

        Args:
            data: what `call` takes.
            device: one of `copies.devices_of` the model, which computes it.
        """
        if static_shapes():
            values = [variable.value for variable in self.variables]
            return self._compiled_by_jax(values, copies.shard_batch(self.model, data, self.WHOLE))
        with _COMPILING:
            if device not in self._compiled:
                self._compiled[device] = self._compile_for_all_shapes(data, device)
        return self._compiled[device](data)

    @functools.cached_property
    def _compiled_by_jax(self) -> Callable[[list, dict], Any]:
        """Of the values of all variables and the data.

        Keras's predict would copy all results to the host: for a search the keys and values of
        every layer, at each chunk.
        """
        import jax

        from t2t_repro.models.jax_step import holding

        def call(values: list, data: dict) -> Any:
            with holding(self.variables, values):
                return self.call(data)

        return jax.jit(call)

    def _compile_for_all_shapes(self, data: dict, device: str) -> Callable[[dict], Any]:
        """One trace for TensorFlow; Keras's predict takes some five until it has met all shapes."""
        import tensorflow as tf

        def any_size(x: Any) -> tf.TensorSpec:
            x = tf.convert_to_tensor(x)
            return tf.TensorSpec([None] * x.shape.rank, x.dtype)

        signature = tf.nest.map_structure(any_size, data)
        # A partial, because TensorFlow would warn that a function defined here for each device is
        # traced again and again. No Python branch depends on a tensor: AutoGraph would only double
        # the time of tracing.
        call = functools.partial(self._call_on, device)
        return tf.function(call, input_signature=[signature], autograph=False)

    def _call_on(self, device: str, data: dict) -> Any:
        with copies.device_scope(self.model, device):
            return self.call(data)


def share_cores(rows: int, cores: int | None = None) -> int:
    """Returns how many searches should share a batch, each in a thread of its own.

    Many operations of a step are too small for two threads. So TensorFlow gets fewer threads for an
    operation, and the searches run in parallel: on two cores in four fifths of the time. Call it
    before TensorFlow computes anything. Later its threads are fixed, and there is one search.

    Args:
        rows: sentences times beams of a full batch.
        cores: how many to share; None: all.
    """
    if static_shapes():
        return 1
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        return 1
    cores = cores or available_cores()
    searches = searches_for(rows, cores)
    try:
        tf.config.threading.set_intra_op_parallelism_threads(cores // searches)
    except RuntimeError:
        return 1
    return searches


def static_shapes() -> bool:
    """Returns whether the backend compiles each shape, so that there should be few."""
    return keras.backend.backend() != "tensorflow"


def few_row_counts(rows: int) -> int:
    """Returns how many rows a batch of at least `rows` should have."""
    return 1 << (int(rows) - 1).bit_length() if static_shapes() else int(rows)
